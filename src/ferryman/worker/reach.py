"""How far a claim looks for jobs that are ours to take.

Mostly the first jobs of the table are, and a claim looks at few more than it wants. When that brings too few, because
others are faster or what stands in front is somebody else's, it looks further: first at more of the same, then by task,
then by task and ever further. After a while it tries whether less will do again.

Nothing is kept that could be out of date: every claim looks at what the table holds by then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

SMALLEST_WINDOW = 64
LARGEST_WINDOW = 1_000_000
SECONDS_OF_LOOKING_FURTHER = 1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """How far to look.

    width: how many jobs to look at for each one that is wanted
    by_task: whether to pass by what is somebody else's, which costs more
    stretch: how many times as many to look at as usual
    """

    width: float
    by_task: bool = False
    stretch: int = 1

    def window(self, wanted: int) -> int:
        """How many jobs to look at."""
        return min(LARGEST_WINDOW, (int(wanted * self.width) + SMALLEST_WINDOW) * self.stretch)


NEAR = Reach(1.25)
WIDE = Reach(3.0)
BY_TASK = Reach(3.0, by_task=True)


class Reaching:
    """Chooses the reach of each claim by what came of those before."""

    def __init__(self) -> None:
        self._reach = NEAR
        self._until = 0.0
        self.is_looking_further = False
        """Whether there may be jobs beyond what the last claim looked at."""

    def reach(self) -> Reach:
        """That of the next claim."""
        if self._reach is not NEAR and time.monotonic() >= self._until:
            self._reach = NEAR
        return self._reach

    def came_back(self, wanted: int, *, is_short: bool) -> None:
        """Learn from the last claim: how many it wanted, and whether it got fewer while there may be more."""
        self.is_looking_further = is_short and self._reach.window(wanted) < LARGEST_WINDOW
        if self.is_looking_further:
            self._reach = _next(self._reach)
            self._until = time.monotonic() + SECONDS_OF_LOOKING_FURTHER


def _next(reach: Reach) -> Reach:
    if reach is NEAR:
        return WIDE
    return BY_TASK if reach is WIDE else replace(reach, stretch=reach.stretch * 4)
