"""Outcomes that cannot be written yet, because another transaction holds the job's row, or its queue's.

An operator, a trigger, or an application that adds a job by its key may hold a row for as long as its transaction is
open. The outcome is tried again, soon at first and then less often, until that transaction has ended.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ferryman.worker.settling.outcomes import claimed_in_one_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.settling.outcomes import Settlement

logger = logging.getLogger("ferryman.worker")

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
SECONDS_UNTIL_TOLD = 10.0
SECONDS_BETWEEN_TELLING = 60.0
FOR_EVER = 3600.0


class BlockedOutcomes:
    """Settlements whose rows other sessions have locked, and when each is tried again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Claim, Settlement] = {}
        self._next_try: dict[Claim, float] = {}
        self._since: dict[Claim, float] = {}
        """When another session was first found in the way of a claim. Kept while the claim is tried again."""
        self._told_at = -SECONDS_BETWEEN_TELLING

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Settlement]:
        return iter(self._waiting.values())

    @property
    def pause(self) -> float:
        """Seconds until the next settlement is due."""
        return max(0.0, min(self._next_try.values()) - self._clock()) if self._waiting else FOR_EVER

    def take(self, most: int) -> list[Settlement]:
        """Take the settlements that are due and can be written together."""
        now = self._clock()
        due = [each for claim, each in self._waiting.items() if self._next_try[claim] <= now][:most]
        taken = due[: claimed_in_one_name(due)]
        for each in taken:
            del self._waiting[each.claim], self._next_try[each.claim]
        return taken

    def has_tried(self, tried: Sequence[Settlement], blocked: Sequence[Settlement]) -> None:
        """Note which settlements were tried, and which of them another session holds up."""
        if not blocked and not self._since:
            return
        now = self._clock()
        for each in blocked:
            since = self._since.setdefault(each.claim, now)
            pause = min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, (now - since) / 2))
            self._next_try[each.claim] = now + pause
            self._waiting[each.claim] = each
        for each in tried:
            if each.claim not in self._waiting:
                self._since.pop(each.claim, None)
        self._tell(now)

    def _tell(self, now: float) -> None:
        long = [claim.job_id for claim, since in self._since.items() if now - since >= SECONDS_UNTIL_TOLD]
        if long and now - self._told_at >= SECONDS_BETWEEN_TELLING:
            self._told_at = now
            logger.warning(
                "the outcomes of %d ended jobs (the first is job %d) could not be written for %g s or more, because "
                "another transaction has locked the rows of the jobs or of their queues; retrying until it ends. "
                "pg_stat_activity shows open transactions",
                len(long),
                long[0],
                SECONDS_UNTIL_TOLD,
                extra={"event": "rows_held", "count": len(long), "job_id": long[0]},
            )
