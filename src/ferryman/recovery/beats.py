"""The heartbeat thread of a worker. It is a thread, so that a blocked event loop does not look like a dead worker.

Every few seconds one statement (`pulse.sql`) sends a heartbeat, if one is due, and looks at the other workers. Errors
never end the thread. While a handler holds the interpreter's lock, the thread cannot run either; then the session lock,
which PostgreSQL holds for the connection, still shows that the worker is alive.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import clocks
from ferryman.database.connecting import ROUND_TRIPS_OF_A_LOGIN, ConnectPatience
from ferryman.database.retrying import Retrying
from ferryman.queries.advisory_locks import watch_key
from ferryman.queries.beat import LockHolder, deregister_worker, free_watch, list_lock_holders, note_silence
from ferryman.recovery.beat_session import BeatSession
from ferryman.recovery.foreign_sweepers import ForeignSweepers
from ferryman.recovery.membership import Membership
from ferryman.recovery.observation_log import HeldLock, ObservationLog
from ferryman.recovery.rhythm import LONGEST_CONNECT_SECONDS
from ferryman.recovery.safety_window import SafetyWindow
from ferryman.recovery.watch_role import WatchRole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferryman.database.addresses import Address
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row
    from ferryman.recovery.observer import Dead, Death
    from ferryman.recovery.rhythm import Rhythm

logger = logging.getLogger("ferryman.recovery")

CLOSE_SECONDS = 5.0
HELD_SECONDS = 50.0
"""The log names a stranger that holds the watcher's lock after about a minute, which is two full looks."""


class Beats:
    """Registers a worker, sends its heartbeats, and reports other workers that are dead.

    metadata: what the worker's row says about it; the session key is added
    on_registered: called with the id under which the worker may claim from now on, at the start and after it was swept
    on_swept: called with an id that was declared dead; returns the new id to register under
    state: returns what the worker is doing, called before each heartbeat and stored with it
        (`worker.duties.worker_state`)
    on_dead: called with the dead workers, at every look for as long as they are registered
    window: written at each heartbeat, for the parts that must know whether the worker may have been declared dead

    The callbacks run on the heartbeat thread: they must be quick, and pass on what takes time.
    """

    def __init__(
        self,
        address: Address,
        schema: SchemaName,
        *,
        worker_id: str,
        metadata: Mapping[str, Any],
        rhythm: Rhythm,
        on_swept: Callable[[str], str],
        on_registered: Callable[[str], None] = lambda _: None,
        on_dead: Callable[[Sequence[Dead]], None] = lambda _: None,
        state: Callable[[], Mapping[str, Any] | None] = lambda: None,
        clock: Callable[[], float] = clocks.now,
        window: SafetyWindow | None = None,
    ) -> None:
        self._address = address
        self._schema = schema
        self._rhythm = rhythm
        self._on_dead = on_dead
        self._state = state
        self.clock = clock
        self.window = window or SafetyWindow.of(rhythm)
        self._on_swept = on_swept
        self._membership = Membership(worker_id, metadata, on_swept=self._close_window, on_registered=on_registered)
        self._watch = WatchRole(schema, rhythm)
        self._foreign_sweepers = ForeignSweepers(rhythm)
        # Short pauses: after an outage, a worker must be back before others declare it dead.
        self._retrying = Retrying(
            "heartbeat",
            logger=logger,
            longest=rhythm.longest_pause,
            longest_after_a_minute=2 * rhythm.longest_pause,
            clock=clock,
        )
        self._patience = ConnectPatience(rhythm.connect_seconds, LONGEST_CONNECT_SECONDS)
        self._log = ObservationLog(rhythm, clock)
        self._held_watch = HeldLock(
            "the advisory lock of the watcher",
            "no worker can watch the sessions of others, so dead workers are found only by missing heartbeats, which "
            "takes longer",
            clock,
        )
        self._session: BeatSession | None = None
        self._next_beat = self._next_state = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._deregisters = True

    @property
    def worker_id(self) -> str:
        """The id under which the worker is registered, or tries to be."""
        return self._membership.worker_id

    @property
    def goes_by_beats(self) -> bool:
        """True if only heartbeats count: behind a pooler, or without a `lost_session_grace`."""
        session = self._session
        return session is not None and session.key is None

    @property
    def is_watching(self) -> bool:
        """True if this worker is the watcher, which checks the session locks of all others."""
        return self._watch.is_ours

    def attended(self, deaths: Iterable[Death]) -> None:
        """Note that these dead workers were swept, or need no sweep. Thread-safe.

        A watcher whose dead workers stay unattended for long leaves its role to another worker.
        """
        for death in deaths:
            self._watch.attended(death)

    def start(self) -> None:
        """Start the heartbeat thread. It registers the worker as soon as the database answers."""
        self._thread = threading.Thread(target=self._run, name="ferryman beats", daemon=True)
        self._thread.start()

    def close(self, *, deregister: bool = True, seconds: float = CLOSE_SECONDS) -> None:
        """Stop the heartbeat thread within `seconds`, even if the database does not answer.

        Pass `deregister=False` if jobs are unsettled: once the session is gone, another worker declares this one dead
        and recovers them.
        """
        self._deregisters = deregister
        self._stop.set()
        if self._thread is None:
            self._leave()
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning(
                "worker %s ended, but could not deregister, because the database did not answer; another worker will "
                "declare it dead and recover any jobs that it still holds",
                self.worker_id,
                extra={"event": "goodbye_timed_out", "worker_id": self.worker_id},
            )

    def once(self) -> float:
        """Do what is due now. Returns the seconds until the next call."""
        try:
            if self._session is None:
                self._session = self._join()
            self._pulse(self._session)
        except (psycopg.Error, OSError) as error:
            self._lose_session()
            if isinstance(error, psycopg.errors.UndefinedTable):
                self.window.end()  # the schema is a Rust worker's now: nothing would recover jobs that start
            if not self._membership.was_tried or not self.window.is_safe(self.clock()):
                # While the window is open, a longer try on a silent server could get a live worker declared dead.
                self._patience.failed(error)
            return self._retrying.pause_after(error)
        self._retrying.is_over()
        return self._watch.pause

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                pause = self.once()
            except Exception:
                # A bug here or in a callback. Without heartbeats, the worker would be declared dead.
                logger.exception(
                    "the worker's heartbeat thread met an unexpected error; it continues with the next heartbeat",
                    extra={"event": "beats_met_error"},
                )
                pause = self._rhythm.tick
        self._leave()

    def _join(self) -> BeatSession:
        session = self._connect()
        try:
            self._enter(session)
        except BaseException:
            session.close()
            raise
        return session

    def _connect(self) -> BeatSession:
        return BeatSession.open(
            self._address,
            self._schema,
            self.worker_id,
            holds_lock=self._rhythm.grace is not None,
            connect_seconds=self._patience.seconds,
        )

    def _enter(self, session: BeatSession) -> None:
        sent = self.clock()
        self._membership.join(session)
        self.window.begin(has_session=session.key is not None)
        self.window.beaten(sent)
        self._membership.announce()
        self._foreign_sweepers.look(functools.partial(self._ask, session), sent)
        self._next_beat = sent + self._foreign_sweepers.beat

    def _pulse(self, session: BeatSession) -> None:
        sent = self.clock()
        # A little early rather than late: the next chance comes a tick later.
        is_due = sent + self._rhythm.tick > self._next_beat
        state = self._take_state(sent) if is_due else None
        rows = session.fetch(self._watch.question(self.worker_id, sent, is_due=is_due, session=session, state=state))
        # First, because a worker that does not know that it is the watcher would never leave the role to another.
        dead = self._watch.answered(rows, sent=sent, received=self.clock())
        self._log.observed(self._watch.observed_seconds)
        self._note_round_trip()
        if not rows[0][0]:
            self._membership.was_swept()
            self._enter(session)
        elif is_due:
            self.window.beaten(sent)
            self._foreign_sweepers.beat_returned(functools.partial(self._ask, session), sent, are_there=rows[0][-1])
            self._next_beat = sent + self._foreign_sweepers.beat
        else:
            self.window.proved(sent)
        if self._watch.may_be_stuck:
            self._free_watch(session)
        if silences := self._watch.silences_to_note:
            self._ask(session, note_silence(silences))
        if self._watch.is_full and session.key is not None:
            self._name_holder_of_watch(session)
        if dead:
            self._on_dead(dead)

    def _ask(self, session: BeatSession, call: Call) -> Sequence[Row]:
        """Run a statement between two looks."""
        sent = self.clock()
        rows = session.fetch(call)
        self._watch.asked(sent=sent, received=self.clock())
        return rows

    def _note_round_trip(self) -> None:
        round_trip = self._watch.round_trip
        self._log.measured(round_trip)
        if round_trip is not None:
            self._patience.expect(ROUND_TRIPS_OF_A_LOGIN * round_trip)

    def _take_state(self, now: float) -> Mapping[str, Any] | None:
        """Read what the worker is doing, once per interval. A failure must not cost a heartbeat."""
        if now + self._rhythm.tick <= self._next_state:  # heartbeats can come more often because of foreign sweepers
            return None
        self._next_state = now + self._rhythm.beat
        try:
            return self._state()
        except Exception:
            logger.exception(
                "could not read what this worker is doing (its jobs, memory and event loop); sending the heartbeat "
                "without these figures",
                extra={"event": "beats_met_error"},
            )
            return None

    def _close_window(self, old_id: str) -> str:
        self.window.end()
        return self._on_swept(old_id)

    def _free_watch(self, session: BeatSession) -> None:
        try:
            ended = self._ask(session, free_watch(watch_key(self._schema)))
        except psycopg.errors.InsufficientPrivilege:
            return
        if ended:
            logger.warning(
                "ended the database session of the watcher (the worker that finds dead workers), because it hangs and "
                "is no longer registered; another worker becomes the watcher",
                extra={"event": "hung_watcher_ended"},
            )

    def _name_holder_of_watch(self, session: BeatSession) -> None:
        """Log which session holds the watcher's lock and is no worker's. Only a worker that is not the watcher asks."""
        strangers: list[LockHolder] = []
        if not self._watch.is_ours:
            holders = [LockHolder(*row) for row in self._ask(session, list_lock_holders(self._schema))]
            strangers = [holder for holder in holders if holder.lock == "watch" and not holder.is_worker]
        if not strangers:
            self._held_watch.is_free()
        elif self._held_watch.is_held(HELD_SECONDS):
            self._held_watch.name(strangers[0])

    def _lose_session(self) -> None:
        self._watch.interrupt()
        self._log.disconnected()
        if self._session is not None:
            self._session.close()
            self._session = None

    def _leave(self) -> None:
        """Deregister, if that works at once. Otherwise the lost session shows it a little later."""
        with contextlib.suppress(psycopg.Error, OSError):
            if self._deregisters and self._membership.was_tried:
                session = self._session or BeatSession.open(self._address, self._schema, self.worker_id)
                self._session = session
                session.fetch(deregister_worker(self.worker_id))
        self._lose_session()
