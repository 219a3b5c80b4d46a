"""Claims that the database holds for this worker, and of which it never heard.

A connection that is cut between the commit of a claim and its reply leaves jobs locked by a worker that lives, so that
nobody would ever look for them. After such a cut the worker gives back whatever was claimed in its name after the last
claim that it heard of. It looks several times: a request may lie in the network for a while, and be carried out later.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ferryman.queries import working

if TYPE_CHECKING:
    from ferryman.worker.claims import Claimed
    from ferryman.worker.connection import WorkerConnection

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_LOOKS = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)


class LostClaims:
    """Knows the newest claim that was heard of. For one who never claims twice at the same time."""

    def __init__(self, connection: WorkerConnection, worker_id: str) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._newest_token = 0
        self._looks: list[float] = []

    def heard_of(self, claimed: Claimed) -> None:
        """Note claims that came through."""
        if claimed.claims:
            self._newest_token = max(self._newest_token, claimed.claims[0].token)

    def suspect(self) -> None:
        """Note that a claim was sent and no reply came."""
        now = time.monotonic()
        self._looks = [now + seconds for seconds in SECONDS_UNTIL_LOOKS]

    async def give_back(self) -> None:
        """Look for them, if it is time to."""
        if not self._looks or self._looks[0] > time.monotonic():
            return
        returned = await self._connection.fetch(working.return_lost_claims(self._worker_id, self._newest_token))
        del self._looks[0]
        if returned:
            logger.warning("%d jobs were claimed over a connection that broke; they were given back", len(returned))
