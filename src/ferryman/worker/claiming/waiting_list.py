"""Writes, for sweepers, which jobs wait in the local queue and have not started.

With each heartbeat interval, a worker writes a list of such claims into its row. From the moment at which a list is
made, a job on it starts only after its start is marked; so a job that is on the list and has no mark never started. All
others start without a mark: most jobs never meet a list, and pay nothing.

The claims that will wait longest are listed, up to a limit, because they need their marks last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ferryman.errors import FerrymanError
from ferryman.queries.claim import record_waiting

if TYPE_CHECKING:
    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.held_claims import ClaimHolder
    from ferryman.worker.identity import Identity

MOST_LISTED = 2_000


class WaitingList:
    """Writes the list, and knows which claims are on it.

    seconds: time between two lists
    """

    def __init__(
        self,
        database: TimedDatabase,
        identity: Identity,
        *,
        seconds: float,
    ) -> None:
        self._database = database
        self._identity = identity
        self._holder: ClaimHolder | None = None
        self._seconds = seconds
        self._listed: frozenset[Claim] = frozenset()

    def __contains__(self, claim: object) -> bool:
        return claim in self._listed

    def draw_from(self, holder: ClaimHolder) -> None:
        """List the claims that wait in this part of the worker, the next one first."""
        self._holder = holder

    async def run(self) -> None:
        """Write a list at each interval, until cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.write()

    async def write(self) -> None:
        """Write a list of the claims that wait now. If that fails, the old list holds until the next one."""
        worker_id, old = self._identity.id, self._listed
        held = () if self._holder is None else self._holder.held_claims
        waiting = [claim for claim in held if claim.worker_id == worker_id]
        claims = waiting[-MOST_LISTED:]
        if not claims and not old:
            return
        # Before anything is sent: from here on these are marked, and those of the old list for as long as it may stand.
        self._listed = old.union(claims)
        call = record_waiting(worker_id, [(claim.job_id, claim.token) for claim in claims])
        try:
            rows = await self._database.fetch(call)
        except FerrymanError:  # the table of workers may have given way to a Rust worker's
            return
        if rows:
            self._listed = frozenset(claims)
