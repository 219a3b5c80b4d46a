"""Registered workers of other programs, and how often to send heartbeats because of them.

A Rust worker with recovery sweeps every registered worker whose heartbeat is older than its own threshold, which is
stored nowhere. If Ferryman's heartbeats came less often, it would sweep live workers again and again. So, while such a
worker is registered, each look at other workers sends a heartbeat too, which needs no further statement.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ferryman.queries.beat import find_foreign_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.recovery.rhythm import Rhythm

logger = logging.getLogger("ferryman.recovery")


class ForeignSweepers:
    """Remembers which workers of other programs were registered at the last look.

    beat: seconds until the next heartbeat is due
    """

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._known: frozenset[str] = frozenset()
        self._next_look = 0.0
        self.beat = rhythm.beat

    def beat_returned(self, ask: Callable[[Call], Sequence[Row]], now: float, *, are_there: bool) -> None:
        """Note what a heartbeat returned. The ids are read once per heartbeat interval."""
        if not are_there:
            self._found(frozenset())
        elif now >= self._next_look or not self._known:
            self.look(ask, now)

    def look(self, ask: Callable[[Call], Sequence[Row]], now: float) -> None:
        """Read which workers of other programs are registered."""
        self._next_look = now + self._rhythm.beat
        self._found(frozenset(worker_id for (worker_id,) in ask(find_foreign_workers())))

    def _found(self, found: frozenset[str]) -> None:
        self.beat = self._rhythm.tick if found else self._rhythm.beat
        if found - self._known and self.beat < self._rhythm.beat:
            logger.warning(
                "workers of another program are registered in this schema (%s), and may declare this worker dead after "
                "a time that is unknown here, their sweep_threshold; sending a heartbeat every %g s while they are "
                "registered. Their sweep_threshold must be longer than that; set this worker's heartbeat_interval to "
                "at most half of it, so that it is safe from the moment they start",
                ", ".join(sorted(found)),
                self.beat,
                extra={"event": "foreign_sweepers", "count": len(found)},
            )
        self._known = found
