"""The watcher's role, and what each look at other workers asks and finds.

One worker per schema is the watcher: it checks the session locks of all others. The others try to become the watcher,
and one does when the watcher's session ends. Every worker also looks for heartbeats that have stopped, though seldom:
the watcher's own may be one of them.

A watcher may find a dead worker and fail to sweep it: its event loop is blocked, its sweep or a hook hangs, or its
database role may not sweep. Then it leaves the role to another worker.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from ferryman.queries.advisory_locks import watch_key
from ferryman.queries.beat import look_at_workers, pulse
from ferryman.recovery.observer import Sign, SilenceObserver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row
    from ferryman.queries.beat import WatchStep
    from ferryman.recovery.beat_session import BeatSession
    from ferryman.recovery.observer import Dead, Death
    from ferryman.recovery.rhythm import Rhythm

logger = logging.getLogger("ferryman.recovery")

ROUNDING_SECONDS = 0.001
"""Sums of many short times are a little too short or too long."""
PART_OF_A_BEAT = 0.8
TICKS_TO_STAND_BACK = 5
"""A watcher that was late leaves the role to others for this long."""
TICKS_UNTIL_SWEPT = 4
"""A dead worker should be swept within this time after it was reported."""
ROUND_TRIPS_OF_A_SWEEP = 40
"""Eighteen with hooks, and some to prepare statements; before that, six for a new connection, and five if a search for
orphans is running."""
TICKS_WITHOUT_SWEEPS = 24
"""A watcher that did not sweep leaves the role to others for this long, unless it sweeps after all."""


class WatchRole:
    """Decides what the next look asks, what its answer means, and when to look again."""

    def __init__(self, schema: SchemaName, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._key = watch_key(schema)
        self._observer = SilenceObserver(
            grace=rhythm.reconnect_time,
            silences=[rhythm.silent_after, *rhythm.longer_silences],
            reconnect_time=rhythm.reconnect_time,
            longest_gap=rhythm.longest_gap,
        )
        self.is_ours = False
        self.pause = 0.0
        self.may_be_stuck = False
        """True if a worker was reported silent: it may be a hung watcher, and swept by now."""
        self._next_full = 0.0
        self._is_full = False
        self._is_pooled = False
        self._reported_silent = False
        self._planned: float | None = None
        self._stands_back = 0
        self._reported: dict[Death, float] = {}
        """Workers reported dead for their lost session, and when each was first reported."""
        self._attended: set[Death] = set()
        self._sweeps: deque[Death] = deque()
        """Sweeps that other threads have reported."""
        self._waits_for_sweep = False

    @property
    def observed_seconds(self) -> float:
        """For how long this worker could observe others, in total."""
        return self._observer.observed_seconds

    @property
    def round_trip(self) -> float | None:
        """The fastest of the last answers, in seconds; None before that is known."""
        return self._observer.round_trip

    @property
    def is_full(self) -> bool:
        """True if the last look was a full one, which finds heartbeats that have stopped."""
        return self._is_full

    @property
    def silences_to_note(self) -> list[tuple[str, datetime, float]]:
        """Silences that later observers should know, while this one has not observed long enough to act on them."""
        is_wanted = self._is_full and self._observer.is_young
        return self._observer.silences_to_note if is_wanted else []

    def attended(self, death: Death) -> None:
        """Note that a reported worker was swept, or needs no sweep. Thread-safe."""
        self._sweeps.append(death)

    def question(
        self,
        worker_id: str,
        now: float,
        *,
        is_due: bool,
        session: BeatSession,
        state: Mapping[str, Any] | None = None,
    ) -> Call:
        """The statement for this look. `state` is stored with the heartbeat."""
        self._is_full = now + self._rhythm.tick > self._next_full
        self._is_pooled = session.key is None
        step = self._step(now, session)
        if step != "keep" and not self._is_full:
            return pulse(worker_id, is_due=is_due, watch_step=step, watch_key=self._key, state=state)
        return look_at_workers(
            worker_id,
            is_due=is_due,
            watch_step=step,
            watch_key=self._key,
            is_full=self._is_full,
            # Without session locks only silence counts, so every heartbeat is followed from the start. Otherwise from
            # a little before the next heartbeat is due, so that the next full look comes in time.
            old_after=0.0 if self._is_pooled else PART_OF_A_BEAT * self._rhythm.beat,
            state=state,
        )

    def answered(self, rows: Sequence[Row], *, sent: float, received: float) -> list[Dead]:
        """Return the dead workers, by this answer and those before."""
        was_ours, self.is_ours = self.is_ours, bool(rows[0][1])
        signs = [Sign(*row[2:-1]) for row in rows if row[2:-1] and row[2] is not None]
        dead = self._observer.looked(signs, is_full=self._is_full, sent=sent, received=received)
        self._note_reports(dead, received)
        self._plan(received, dead)
        if self.is_ours and not was_ours and not self._is_full:
            # The last watcher may have died. Its session, and those that it saw missing, count from the next look on.
            self.pause, self._planned = 0.0, received
        return dead

    def asked(self, *, sent: float, received: float) -> None:
        """Note another statement and its answer: the next look is due that much later."""
        self._observer.asked(sent=sent, received=received)
        if self._planned is not None:
            self._planned += received - sent

    def interrupt(self) -> None:
        """Note that the connection was lost, and the watcher's role with it."""
        self._observer.could_not_look()
        self._reported.clear()
        self.is_ours = self.may_be_stuck = False
        self._planned = None

    def _step(self, now: float, session: BeatSession) -> WatchStep:
        if session.key is None:
            return "none"
        is_late = self._planned is not None and now - self._planned > self._rhythm.tick
        if is_late:
            self._stands_back = max(self._stands_back, TICKS_TO_STAND_BACK)
        self._judge_sweeps(now)
        if self._stands_back:
            self._stands_back -= 1
            return "leave" if self.is_ours else "none"
        return "keep" if self.is_ours else "try"

    def _note_reports(self, dead: Sequence[Dead], now: float) -> None:
        reported = {one.death for one in dead if one.reason == "session lost"}
        self._reported = {death: self._reported.get(death, now) for death in reported}
        self._attended &= reported

    def _judge_sweeps(self, now: float) -> None:
        """Leave the role for a while if a worker that was reported dead is not swept."""
        while self._sweeps:
            self._attended.add(self._sweeps.popleft())
            if self._waits_for_sweep:
                self._stands_back, self._waits_for_sweep = 0, False
        patience = TICKS_UNTIL_SWEPT * self._rhythm.tick + ROUND_TRIPS_OF_A_SWEEP * (self.round_trip or 0.0)
        unswept = [
            worker_id
            for (worker_id, beat), since in self._reported.items()
            if now - since > patience and (worker_id, beat) not in self._attended
        ]
        if unswept:
            self._stands_back, self._waits_for_sweep = TICKS_WITHOUT_SWEEPS, True
            self._reported.clear()
            logger.warning(
                "this worker found dead workers %s, but did not recover their jobs within %.1f s: its event loop is "
                "blocked, or the recovery hangs or fails; leaving it to another worker",
                ", ".join(unswept),
                patience,
                extra={"event": "watch_given_up", "count": len(unswept)},
            )

    def _plan(self, now: float, dead: Sequence[Dead]) -> None:
        self.may_be_stuck = False
        if self._is_full:
            self.may_be_stuck = self._reported_silent and not self.is_ours
            self._reported_silent = any(one.reason == "silent" for one in dead)
            self._next_full = now + self._rhythm.sweep / (2 if self._is_pooled else 1)
        if self._observer.is_young and self._observer.has_late:
            self._next_full = now  # so that what was observed is noted soon, in case this worker does not run for long
        silent_in = self._observer.next_silent_in
        if silent_in is not None and silent_in > 0:
            self._next_full = min(self._next_full, now + silent_in + self._rhythm.tick)
        self.pause = self._rhythm.tick
        for seconds in (self._observer.next_lost_in, silent_in):
            if seconds is not None and seconds > 0:
                self.pause = min(self.pause, seconds + ROUNDING_SECONDS)
        self._planned = now + self.pause
