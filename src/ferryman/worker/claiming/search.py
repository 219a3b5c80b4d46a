"""Chooses which claim statement is sent, and how many jobs it looks at.

Usually the first jobs of the table are due and for this worker, and none has a queue. Then the cheapest claim is
enough; it looks at few more jobs than it wants. It is tried when there are likely to be jobs. If it finds too few,
because other workers are faster or the first jobs are not for this worker, the next claims look further: first at jobs
with queues too, then at more of these, then by task, then by task and further each time. After a second the cheapest
claim is tried again.

No result is kept, so none can be out of date: every claim reads the table anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ferryman.queries.claim import ClaimStatement

if TYPE_CHECKING:
    from ferryman.worker.claiming.claims import ClaimReply

SMALLEST_WINDOW = 64
LARGEST_WINDOW = 1_000_000
SECONDS_OF_LOOKING_FURTHER = 1.0


class SearchPlan(msgspec.Struct, frozen=True):
    """A claim statement, and how far it looks.

    width: how many jobs to look at for each one that is wanted
    stretch: factor on the usual number of jobs to look at
    """

    search: ClaimStatement
    width: float
    stretch: int = 1

    def window(self, wanted: int) -> int:
        """How many jobs to look at."""
        return min(LARGEST_WINDOW, (int(wanted * self.width) + SMALLEST_WINDOW) * self.stretch)


PLAIN = SearchPlan(ClaimStatement.PLAIN, 8.0)
NEAR = SearchPlan(ClaimStatement.FRONT, 1.25)
WIDE = SearchPlan(ClaimStatement.FRONT, 3.0)
BY_TASK = SearchPlan(ClaimStatement.BY_TASK, 3.0)


class SearchPlanner:
    """Chooses which statement the next claim uses and how many jobs it looks at, by the results of those before."""

    def __init__(self) -> None:
        self._plan = PLAIN
        self._until = 0.0
        self._was_full = False

    def next_plan(self, *, is_announced: bool) -> SearchPlan:
        """The plan of the next claim.

        is_announced: True if new jobs were announced
        """
        if time.monotonic() >= self._until:
            self._plan = PLAIN
        # When jobs are unlikely, the other claim is better: if it finds none, it also checks that our tasks exist.
        if self._plan is PLAIN and not is_announced and not self._was_full:
            return NEAR
        return self._plan

    def learn(self, plan: SearchPlan, wanted: int, reply: ClaimReply) -> bool:
        """Learn from the last claim. True if there may be jobs beyond what it looked at."""
        count = len(reply.claims)
        self._was_full = count >= wanted
        is_short = reply.is_window_full and count < wanted and plan.window(wanted) < LARGEST_WINDOW
        if is_short:
            self._plan = _next(plan)
            self._until = time.monotonic() + SECONDS_OF_LOOKING_FURTHER
        return is_short

    def failed(self) -> None:
        """Note that the last claim failed. The next one uses another statement, in case this one was to blame."""
        self._plan = NEAR
        self._until = time.monotonic() + SECONDS_OF_LOOKING_FURTHER


def _next(plan: SearchPlan) -> SearchPlan:
    following = {PLAIN: NEAR, NEAR: WIDE, WIDE: BY_TASK}
    return following.get(plan) or replace(plan, stretch=plan.stretch * 4)
