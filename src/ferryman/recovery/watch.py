"""Looking at the signs of life of others, from the connection of one's own.

One worker of a schema has the watch: it looks at the session locks of all. The others try to get it, which they do
when its session ends. Everybody looks for workers that have stopped beating, though seldom: the one that has the watch
may be one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.queries import beating
from ferryman.recovery.watching import Observer, Sign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row
    from ferryman.queries.beating import WatchStep
    from ferryman.recovery.rhythm import Rhythm
    from ferryman.recovery.session import BeatSession
    from ferryman.recovery.watching import Dead

SECONDS_TO_ROUND = 0.001
"""Sums of many short times come out a little too short or too long."""
TICKS_TO_STAND_BACK = 5
"""For so long, one that was late leaves the watch to others."""


class Watch:
    """What to ask at the next look, what the answer means, and when to look again."""

    def __init__(self, schema: SchemaName, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._key = beating.watch_key(schema)
        self._observer = Observer(grace=rhythm.grace, silent_after=rhythm.silent_after, longest_gap=rhythm.longest_gap)
        self.is_ours = False
        self.pause = 0.0
        self.may_be_stuck = False
        """Whether somebody was told to be silent the last time: it may have the watch, and be swept by now."""
        self._next_full = 0.0
        self._is_full = False
        self._is_pooled = False
        self._told_silent = False
        self._planned: float | None = None
        self._stands_back = 0

    def question(
        self,
        worker_id: str,
        now: float,
        *,
        is_due: bool,
        session: BeatSession,
        state: Mapping[str, Any] | None = None,
    ) -> Call:
        """The statement for this look. `state` goes with the beat."""
        self._is_full = now + self._rhythm.tick > self._next_full
        self._is_pooled = session.key is None
        step = self._step(now, session)
        if step != "keep" and not self._is_full:
            return beating.pulse(worker_id, is_due=is_due, watch_step=step, watch_key=self._key, state=state)
        return beating.look(
            worker_id,
            is_due=is_due,
            watch_step=step,
            watch_key=self._key,
            is_full=self._is_full,
            # Without sessions to miss, silence is all there is, and every worker's beat is followed from the start.
            old_after=0.0 if self._is_pooled else self._rhythm.beat,
            state=state,
        )

    def answered(self, rows: Sequence[Row], *, sent: float, received: float) -> list[Dead]:
        """Who is dead, by the answer and those before."""
        was_ours, self.is_ours = self.is_ours, bool(rows[0][1])
        signs = [Sign(*row[2:]) for row in rows if row[2:] and row[2] is not None]
        dead = self._observer.looked(signs, is_full=self._is_full, sent=sent, received=received)
        self._plan(received, dead)
        if self.is_ours and not was_ours and not self._is_full:
            # The one before may have died; what became of it, and of those it knew to be missing, counts from a look.
            self.pause, self._planned = 0.0, received
        return dead

    def interrupt(self) -> None:
        """Note that the connection is lost, and with it the watch."""
        self._observer.could_not_look()
        self.is_ours = self.may_be_stuck = False
        self._planned = None

    def _step(self, now: float, session: BeatSession) -> WatchStep:
        if session.key is None:
            return "none"
        is_late = self._planned is not None and now - self._planned > self._rhythm.tick
        if is_late:
            self._stands_back = TICKS_TO_STAND_BACK
        if self._stands_back:
            self._stands_back -= 1
            return "leave" if self.is_ours else "none"
        return "keep" if self.is_ours else "try"

    def _plan(self, now: float, dead: Sequence[Dead]) -> None:
        self.may_be_stuck = False
        if self._is_full:
            self.may_be_stuck = self._told_silent and not self.is_ours
            self._told_silent = any(one.reason == "silent" for one in dead)
            self._next_full = now + self._rhythm.sweep / (2 if self._is_pooled else 1)
        silent_in = self._observer.next_silent_in
        if silent_in is not None and silent_in > 0:
            self._next_full = min(self._next_full, now + silent_in + self._rhythm.tick)
        self.pause = self._rhythm.tick
        lost_in = self._observer.next_lost_in
        if lost_in is not None and lost_in > 0:
            self.pause = min(self.pause, lost_in + SECONDS_TO_ROUND)
        self._planned = now + self.pause
