"""How far a claim looks for jobs that are ours to take.

Mostly the first jobs of the table are, and none of them has a queue: the cheapest claim will do, and looks at few more
jobs than it wants. It is tried when there are likely to be jobs. When it brings too few, because others are faster or
what stands in front is somebody else's, the next claims look further: first among jobs with queues too, then at more of
the same, then by task, then by task and ever further. After a while it is tried whether less will do again.

Nothing is kept that could be out of date: every claim looks at what the table holds by then.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ferryman.queries.claim import ClaimStatement

if TYPE_CHECKING:
    from ferryman.worker.claiming.claims import Claimed

SMALLEST_WINDOW = 64
LARGEST_WINDOW = 1_000_000
SECONDS_OF_LOOKING_FURTHER = 1.0


class Reach(msgspec.Struct, frozen=True):
    """How far to look.

    width: how many jobs to look at for each one that is wanted
    stretch: how many times as many to look at as usual
    """

    search: ClaimStatement
    width: float
    stretch: int = 1

    def window(self, wanted: int) -> int:
        """How many jobs to look at."""
        return min(LARGEST_WINDOW, (int(wanted * self.width) + SMALLEST_WINDOW) * self.stretch)


PLAIN = Reach(ClaimStatement.PLAIN, 8.0)
NEAR = Reach(ClaimStatement.FRONT, 1.25)
WIDE = Reach(ClaimStatement.FRONT, 3.0)
BY_TASK = Reach(ClaimStatement.BY_TASK, 3.0)


class Reaching:
    """Chooses the reach of each claim by what came of those before."""

    def __init__(self) -> None:
        self._reach = PLAIN
        self._until = 0.0
        self._was_full = False
        self.is_looking_further = False
        """Whether there may be jobs beyond what the last claim looked at."""
        self.has_all = False
        """Whether the last claim left nothing behind, and knows when there is something again."""

    def reach(self, *, is_announced: bool) -> Reach:
        """That of the next claim.

        is_announced: whether somebody has said that there are jobs
        """
        if time.monotonic() >= self._until:
            self._reach = PLAIN
        # Without hope, the other claim is better: when there is nothing, it also looks whether our tasks still exist.
        if self._reach is PLAIN and not is_announced and not self._was_full:
            return NEAR
        return self._reach

    def came_back(self, reach: Reach, wanted: int, claimed: Claimed) -> None:
        """Learn from the last claim."""
        count = len(claimed.claims)
        self._was_full = count >= wanted
        is_short = claimed.is_window_full and count < wanted and reach.window(wanted) < LARGEST_WINDOW
        if is_short:
            self._reach = _next(reach)
            self._until = time.monotonic() + SECONDS_OF_LOOKING_FURTHER
        self.is_looking_further = is_short
        self.has_all = not is_short and (count == 0 or claimed.took_all)

    def has_failed(self) -> None:
        """Learn that the last claim came to nothing: if its statement was to blame, the next one is another."""
        self._reach = NEAR
        self._until = time.monotonic() + SECONDS_OF_LOOKING_FURTHER


def _next(reach: Reach) -> Reach:
    following = {PLAIN: NEAR, NEAR: WIDE, WIDE: BY_TASK}
    return following.get(reach) or replace(reach, stretch=reach.stretch * 4)
