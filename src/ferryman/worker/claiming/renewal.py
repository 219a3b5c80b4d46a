"""Keeps the locks of long jobs young.

Graphile takes a lock that is older than 4 hours for forgotten, and runs the job again. So the lock of a job that runs
for more than an hour is renewed: it gets a new token, and whatever goes with the claim gets it too.

The new token is the time of the database, which is asked first: the worker notes the token before it asks for it.
Whatever happens to the answer, and whatever a handler or a settlement wants at the same moment, the claim has one of
the tokens that are noted, and all of them are its own.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ferryman import clocks
from ferryman.database.retrying import Retrying
from ferryman.errors import FerrymanError
from ferryman.queries.claim import read_clock, renew_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.running.progress import Progress
    from ferryman.worker.running.slots import Running

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_OLD = 3600.0
SECONDS_BETWEEN_LOOKS = 300.0
"""A lock may be older than it seems by so much, since it is first seen when somebody looks."""


class LongJobs:
    """Looks for old locks among the jobs that run. A worker whose jobs are short pays for a timer.

    renewing: held while tokens change; see `ferryman.worker.claiming.lost_replies`
    """

    def __init__(
        self,
        connection: TimedDatabase,
        running: Running,
        progress: Progress,
        *,
        renewing: asyncio.Lock | None = None,
        clock: Callable[[], float] = clocks.now,
    ) -> None:
        self._connection = connection
        self._running = running
        self._progress = progress
        self._renewing = renewing or asyncio.Lock()
        self._clock = clock
        self._seen: dict[Claim, float] = {}
        """When a claim was first seen, or renewed."""
        self._trouble = Retrying("renewing the locks of long jobs", logger=logger)

    async def run(self) -> None:
        """Renew locks until cancelled."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            await self._look_until_done()

    async def _look_until_done(self) -> None:
        while True:
            try:
                await self.look()
            except FerrymanError as error:
                await asyncio.sleep(self._trouble.pause_after(error))
            else:
                self._trouble.is_over()
                return

    async def look(self) -> None:
        """Renew what is old by now."""
        now = self._clock()
        self._seen = {claim: self._seen.get(claim, now) for claim in self._running.begun}
        old = [claim for claim, since in self._seen.items() if now - since >= SECONDS_UNTIL_OLD]
        for worker_id in {claim.worker_id for claim in old}:
            await self._renew(worker_id, [claim for claim in old if claim.worker_id == worker_id])

    async def _renew(self, worker_id: str, claims: Sequence[Claim]) -> None:
        [[token]] = await self._connection.fetch(read_clock())
        async with self._renewing, self._progress.writing:
            # What has ended in the meantime is about to be settled, and its tokens are known to whoever does that.
            current = {claim.job_id: claim for claim in _holders(claims) if claim in self._running}
            if not current:
                return
            keys = [key for claim in current.values() for key in claim.keys]
            for claim in current.values():
                claim.later_tokens = (*claim.later_tokens, token)
            rows = await self._connection.fetch(renew_claims(worker_id, keys, token))
        for job_id, result in rows:
            self._take(current[job_id], result)

    def _take(self, claim: Claim, result: str) -> None:
        match result:
            case "busy":
                return  # somebody works on its row, which will be over when we look again
            case "lost":
                logger.warning(
                    "job %d was taken away from this worker while it ran; it is cancelled",
                    claim.job_id,
                    extra={"event": "job_lost", "job_id": claim.job_id},
                )
                self._running.lose(claim)
            case "gone":
                # Perhaps its handler has completed it, and not returned yet.
                logger.debug(
                    "job %d is not in the database any more",
                    claim.job_id,
                    extra={"event": "job_gone", "job_id": claim.job_id},
                )
        self._seen[claim] = self._clock()


def _holders(claims: Sequence[Claim]) -> list[Claim]:
    """These claims without those that have lost their queue, to a later one of ours.

    All that are renewed get one token, by which a lost claim could free the queue of the later one.
    """
    in_order = sorted(claims, key=lambda claim: claim.token)
    holders = {claim.queue_id: claim for claim in in_order}
    return [claim for claim in in_order if claim.queue_id is None or holders[claim.queue_id] is claim]
