"""Signs of life of a worker, from a thread of its own: a blocked event loop must not look like death.

Every few seconds one statement beats, if it is time to, and looks at the signs of others; see `pulse.sql`. Whatever
goes wrong, the thread goes on. While a handler holds the interpreter's lock it cannot beat either; then the session
lock, which the server keeps for it, still says that the worker lives.
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
from ferryman.queries import beating
from ferryman.recovery.beat_session import BeatSession
from ferryman.recovery.foreign_sweepers import ForeignSweepers
from ferryman.recovery.membership import Membership
from ferryman.recovery.observation_log import HeldLock, ObservationLog
from ferryman.recovery.rhythm import LONGEST_CONNECT_SECONDS
from ferryman.recovery.safety_window import Lease
from ferryman.recovery.watch_role import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferryman.database.addresses import Address
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row
    from ferryman.recovery.observer import Dead, Death
    from ferryman.recovery.rhythm import Rhythm

logger = logging.getLogger("ferryman.recovery")

SECONDS_TO_CLOSE = 5.0
SECONDS_HELD = 50.0
"""After about a minute, which is two full looks, the log says who holds the watch and is no worker."""


class Beats:
    """Registers a worker, keeps saying that it lives, and tells of others that do not.

    metadata: what the worker says of itself; the session key is added
    on_registered: called with the id under which the worker may claim from now on, at the start and after it was swept
    on_swept: called with an id whose jobs were taken away; returns a new one, under which the worker is registered next
    state: what the worker is doing, asked before each beat and written down with it (`worker.duties.worker_state`)
    on_dead: called with workers that are dead, again at each look for as long as they are registered

    The callbacks run on the thread of the beats: they must be quick, and hand over what takes time.
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
    ) -> None:
        self._address = address
        self._schema = schema
        self._rhythm = rhythm
        self._on_dead = on_dead
        self._state = state
        self.clock = clock
        self.lease = Lease(threshold=rhythm.silent_after, grace=rhythm.settling, margin=rhythm.margin)
        self._on_swept = on_swept
        self._membership = Membership(worker_id, metadata, on_swept=self._end_lease, on_registered=on_registered)
        self._watch = Watch(schema, rhythm)
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
            "no worker can watch the sessions of others, so dead workers are found only by their silence",
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
    def last_acknowledged(self) -> float:
        """When the last beat was sent that the database has confirmed, by the clock of `ferryman.clocks`."""
        return self.lease.last_acknowledged

    @property
    def goes_by_beats(self) -> bool:
        """True if sessions say nothing: behind a pooler, or without a `lost_session_grace`."""
        session = self._session
        return session is not None and session.key is None

    @property
    def is_watching(self) -> bool:
        """Whether this worker is the one that watches the sessions of the others."""
        return self._watch.is_ours

    @property
    def has_session(self) -> bool:
        """Whether sessions are the worker's own; behind a pooler they are not, and nobody has the watch."""
        return self.lease.has_session

    def attended(self, deaths: Iterable[Death]) -> None:
        """Note that these dead workers were swept, or need not be. If none of them is for long, others get the watch.

        Thread-safe.
        """
        for death in deaths:
            self._watch.attended(death)

    def start(self) -> None:
        """Begin. The first sign is given at once, or as soon as the database answers."""
        self._thread = threading.Thread(target=self._run, name="ferryman beats", daemon=True)
        self._thread.start()

    def close(self, *, deregister: bool = True, seconds: float = SECONDS_TO_CLOSE) -> None:
        """End, within this time whatever the database does. A worker that still holds jobs had better not deregister.

        Then others find it dead as soon as its session is gone, and recover them.
        """
        self._deregisters = deregister
        self._stop.set()
        if self._thread is None:
            self._part()
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning(
                "the database did not answer in time for worker %s to say goodbye",
                self.worker_id,
                extra={"event": "goodbye_timed_out", "worker_id": self.worker_id},
            )

    def once(self) -> float:
        """Do what is due now; the seconds until there is more to do."""
        try:
            if self._session is None:
                self._session = self._join()
            self._pulse(self._session)
        except (psycopg.Error, OSError) as error:
            self._lose_session()
            if isinstance(error, psycopg.errors.UndefinedTable):
                self.lease.end()  # it has given way to a Rust worker's: nobody would recover what is started now
            if not self._membership.was_tried or not self.lease.is_safe(self.clock()):
                # Before that, a longer try on a server that is silent could cost a live worker its jobs.
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
                # Trouble of our own or in a callback. Silence would be taken for death.
                logger.exception("heartbeat met an error and goes on", extra={"event": "beats_met_error"})
                pause = self._rhythm.tick
        self._part()

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
        self.lease.begin(has_session=session.key is not None)
        self.lease.beaten(sent)
        self._membership.tell()
        self._foreign_sweepers.look(functools.partial(self._ask, session), sent)
        self._next_beat = sent + self._foreign_sweepers.beat

    def _pulse(self, session: BeatSession) -> None:
        sent = self.clock()
        # Rather a little early than late: the next chance comes a tick later.
        is_due = sent + self._rhythm.tick > self._next_beat
        state = self._take_state(sent) if is_due else None
        rows = session.fetch(self._watch.question(self.worker_id, sent, is_due=is_due, session=session, state=state))
        # First, since a watch that we do not know to be ours would never be left to others.
        dead = self._watch.answered(rows, sent=sent, received=self.clock())
        self._log.observed(self._watch.observed_seconds)
        self._note_round_trip()
        if not rows[0][0]:
            self._membership.was_swept()
            self._enter(session)
        elif is_due:
            self.lease.beaten(sent)
            self._foreign_sweepers.told(functools.partial(self._ask, session), sent, are_there=rows[0][-1])
            self._next_beat = sent + self._foreign_sweepers.beat
        else:
            self.lease.proved(sent)
        if self._watch.may_be_stuck:
            self._free_watch(session)
        if silences := self._watch.silences_to_note:
            self._ask(session, beating.note_silence(silences))
        if self._watch.is_full and session.key is not None:
            self._name_holder_of_watch(session)
        if dead:
            self._on_dead(dead)

    def _ask(self, session: BeatSession, call: Call) -> Sequence[Row]:
        """Send a question between two looks."""
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
        """What the worker is doing, once in an interval. Not to know it must not cost a beat."""
        if now + self._rhythm.tick <= self._next_state:  # beats may come more often because of others
            return None
        self._next_state = now + self._rhythm.beat
        try:
            return self._state()
        except Exception:
            logger.exception("heartbeat met an error and goes on", extra={"event": "beats_met_error"})
            return None

    def _end_lease(self, old_id: str) -> str:
        self.lease.end()
        return self._on_swept(old_id)

    def _free_watch(self, session: BeatSession) -> None:
        try:
            ended = self._ask(session, beating.free_watch(beating.watch_key(self._schema)))
        except psycopg.errors.InsufficientPrivilege:
            return
        if ended:
            logger.warning(
                "a worker that hung was still the one to watch others; its session was ended",
                extra={"event": "hung_watcher_ended"},
            )

    def _name_holder_of_watch(self, session: BeatSession) -> None:
        """Say who holds the watch and is not a registered worker. Only a worker that does not have it need ask."""
        strangers: list[beating.LockHolder] = []
        if not self._watch.is_ours:
            holders = [beating.LockHolder(*row) for row in self._ask(session, beating.lock_holders(self._schema))]
            strangers = [holder for holder in holders if holder.lock == "watch" and not holder.is_worker]
        if not strangers:
            self._held_watch.is_free()
        elif self._held_watch.is_held(SECONDS_HELD):
            self._held_watch.name(strangers[0])

    def _lose_session(self) -> None:
        self._watch.interrupt()
        self._log.disconnected()
        if self._session is not None:
            self._session.close()
            self._session = None

    def _part(self) -> None:
        """Say goodbye, if that can be done at once. Otherwise the lost session says the same a little later."""
        with contextlib.suppress(psycopg.Error, OSError):
            if self._deregisters and self._membership.was_tried:
                session = self._session or BeatSession.open(self._address, self._schema, self.worker_id)
                self._session = session
                session.fetch(beating.deregister_worker(self.worker_id))
        self._lose_session()
