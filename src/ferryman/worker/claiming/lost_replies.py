"""Gives back jobs that are locked by this worker, which never heard of their claim.

A connection that is cut between the commit of a claim and its reply leaves jobs locked by a worker that lives, so that
no sweep would ever look for them. After such a cut the worker gives back every job that is locked by its id, except by
the claims that it knows. It looks several times: a request may lie in the network for a while, and be carried out
later.

Times are not compared: after a failover the clock of the database may have gone back, and a lost claim is then older
than the last one that came through. For an id that it has lost, it leaves alone all claims up to the newest one that
came through: the sweep deals with those.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ferryman.database.steps import Commit, Transaction
from ferryman.errors import NotConnectedError
from ferryman.queries.claim import return_lost_claims

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ferryman.database.steps import Steps
    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.held_claims import HeldClaims
    from ferryman.worker.identity import Identity

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_LOOKS = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
SECONDS_UNTIL_HELD_ROWS_ARE_FREE = 5.0
"""When to look again for jobs that could not be given back, because another session had locked their rows."""


class _Look(NamedTuple):
    at: float
    worker_id: str
    """Not always today's name: the worker may have been swept since."""
    heard_of: int
    """The newest claim that had come through by the time of the first suspicion."""


class LostReplies:
    """Gives back jobs whose claim was committed but whose reply was lost.

    held: the claims that the worker knows
    """

    def __init__(self, database: TimedDatabase, identity: Identity, held: HeldClaims) -> None:
        self._database = database
        self._identity = identity
        self._held = held
        self._turn = asyncio.Lock()
        self._newest_token = 0
        self._looks: list[_Look] = []

    @asynccontextmanager
    async def one_claim(self, worker_id: str) -> AsyncIterator[None]:
        """Keep other claims of this worker away while one is under way, and give back lost ones before it.

        What another claim brings meanwhile would be taken for lost. So every source of jobs sends its claims within
        this block, and calls `heard_of` there. An error means that the claim may be committed, unless nothing was sent.
        """
        async with self._turn:
            await self.give_back()
            try:
                yield
            except NotConnectedError:
                raise
            except BaseException:  # whatever it is
                self.suspect(worker_id)
                raise

    def heard_of(self, claims: Sequence[Claim]) -> None:
        """Note claims that came through."""
        if claims:
            self._newest_token = max(self._newest_token, claims[0].token)

    def suspect(self, worker_id: str) -> None:
        """Note that a claim was sent in this name and no reply came, or came too late."""
        now = time.monotonic()
        earlier = [look for look in self._looks if look.worker_id == worker_id]
        heard_of = min([self._newest_token, *(look.heard_of for look in earlier)])
        self._looks = [look for look in self._looks if look not in earlier]
        self._looks += [_Look(now + seconds, worker_id, heard_of) for seconds in SECONDS_UNTIL_LOOKS]

    def until_next_look(self, seconds: float | None) -> float | None:
        """So many seconds, or fewer if the next look is due before."""
        if not self._looks:
            return seconds
        look_in = max(0.0, min(look.at for look in self._looks) - time.monotonic())
        return look_in if seconds is None else min(look_in, seconds)

    async def give_back(self, *, at_once: bool = False) -> None:
        """Look for them, if there may be any and it is time to.

        at_once: it is the last chance; no claim will be made any more
        """
        if not self._looks:
            return
        now = time.monotonic()
        due = [look for look in self._looks if at_once or look.at <= now]
        for worker_id, heard_of in {(look.worker_id, look.heard_of) for look in due}:
            if not await self._look(worker_id, heard_of):
                self._looks.append(_Look(now + SECONDS_UNTIL_HELD_ROWS_ARE_FREE, worker_id, heard_of))
        self._looks = [look for look in self._looks if look not in due]

    async def _look(self, worker_id: str, heard_of: int) -> bool:
        """Give back what is there; whether all could be, or others hold some of the rows."""
        async with self._held.tokens_change:
            returned, is_any_left = await self._database.run(self._return(worker_id, heard_of))
        if returned:
            logger.warning(
                "gave back %d jobs whose claim was lost with its connection",
                returned,
                extra={"event": "lost_claims_returned", "count": returned},
            )
        return not is_any_left

    def _return(self, worker_id: str, heard_of: int) -> Steps[tuple[int, bool]]:
        # This request, too, may be carried out late, when there are newer claims. Uncommitted, it comes to nothing.
        yield Transaction()
        known = [key for claim in self._held for key in claim.keys]
        after = None if worker_id == self._identity.id else heard_of
        [(returned, is_any_left)] = yield return_lost_claims(worker_id, after=after, known=known)
        yield Commit()
        return int(returned), bool(is_any_left)
