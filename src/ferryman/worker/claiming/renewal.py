"""Renews the locks of jobs that run longer than an hour, before Graphile's 4-hour rule releases them.

A renewed lock has a new token, and the rows that go with the claim get it too. The new token is the time of the
database, which is read first: the worker notes the token before it asks for it. So whether or not the answer arrives,
and even if a handler or a settlement acts at the same moment, the claim has one of the noted tokens.
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
    from ferryman.worker.claiming.held_claims import HeldClaims
    from ferryman.worker.running.progress import ProgressWriter
    from ferryman.worker.running.slots import Slots

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_OLD = 3600.0
SECONDS_BETWEEN_LOOKS = 300.0
"""A lock may be older than it seems by up to this much, since it is first seen when this duty looks."""


class LockRenewal:
    """Renews old locks of running jobs. If all jobs are short, it costs only a timer.

    held: has the lock that is held while tokens change
    """

    def __init__(
        self,
        database: TimedDatabase,
        slots: Slots,
        progress: ProgressWriter,
        held: HeldClaims,
        *,
        clock: Callable[[], float] = clocks.now,
    ) -> None:
        self._database = database
        self._slots = slots
        self._progress = progress
        self._held = held
        self._clock = clock
        self._seen: dict[Claim, float] = {}
        """When a claim was first seen, or renewed."""
        self._retrying = Retrying("renewing the locks of long jobs", logger=logger)

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
                await asyncio.sleep(self._retrying.pause_after(error))
            else:
                self._retrying.is_over()
                return

    async def look(self) -> None:
        """Renew the locks that are old by now."""
        now = self._clock()
        self._seen = {claim: self._seen.get(claim, now) for claim in self._slots.started}
        old = [claim for claim, since in self._seen.items() if now - since >= SECONDS_UNTIL_OLD]
        for worker_id in {claim.worker_id for claim in old}:
            await self._renew(worker_id, [claim for claim in old if claim.worker_id == worker_id])

    async def _renew(self, worker_id: str, claims: Sequence[Claim]) -> None:
        [[token]] = await self._database.fetch(read_clock())
        async with self._held.tokens_change, self._progress.writing:
            # A job that has ended in the meantime is about to be settled, by the tokens that its claim has now.
            current = {claim.job_id: claim for claim in _holders(claims) if claim in self._slots}
            if not current:
                return
            keys = [key for claim in current.values() for key in claim.keys]
            for claim in current.values():
                claim.later_tokens = (*claim.later_tokens, token)
            rows = await self._database.fetch(renew_claims(worker_id, keys, token))
        for job_id, result in rows:
            self._take(current[job_id], result)

    def _take(self, claim: Claim, result: str) -> None:
        match result:
            case "busy":
                return  # another session has locked its row; the next look tries again
            case "lost":
                logger.warning(
                    "job %d does not belong to this worker any more: it was unlocked or recovered while its handler "
                    "ran; cancelling the handler",
                    claim.job_id,
                    extra={"event": "job_lost", "job_id": claim.job_id},
                )
                self._slots.lose(claim)
            case "gone":
                # Perhaps its handler has completed it, and not returned yet.
                logger.debug(
                    "job %d is no longer in the database, although its handler still runs; letting the handler "
                    "continue, since it may have completed the job itself",
                    claim.job_id,
                    extra={"event": "job_gone", "job_id": claim.job_id},
                )
        self._seen[claim] = self._clock()


def _holders(claims: Sequence[Claim]) -> list[Claim]:
    """These claims, without those whose queue a later claim of this worker has taken.

    All renewed claims get the same token, so a lost claim could free the queue of the later one.
    """
    in_order = sorted(claims, key=lambda claim: claim.token)
    holders = {claim.queue_id: claim for claim in in_order}
    return [claim for claim in in_order if claim.queue_id is None or holders[claim.queue_id] is claim]
