"""Gives back jobs that are locked by this worker, but whose claim it never learned of.

A connection that is cut between the commit of a claim and its reply leaves jobs locked by a worker that is alive, so
no sweep would ever recover them. After such a cut the worker gives back every job that is locked under its id, except
those of the claims that it knows. It looks several times, because the network may delay a request, which is then
carried out later.

Times are not compared: after a failover the clock of the database may have gone back, and a lost claim is then older
than the last one whose reply arrived. One case is different: under an id that the worker no longer has, claims up to
the newest one whose reply arrived are left alone. The sweep that declared the worker dead recovers their jobs.
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
    """Not always the current id: the worker may have been swept since."""
    heard_of: int
    """The newest claim whose reply had arrived by the time of the first suspicion."""


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
        """Allow one claim of this worker at a time, and give back lost ones before it.

        The jobs of a second claim would count as lost. So every source of jobs sends its claims within this block, and
        calls `heard_of` there. An error means that the claim may be committed, unless nothing was sent.
        """
        async with self._turn:
            await self.give_back()
            try:
                yield
            except NotConnectedError:
                raise
            except BaseException:  # a cancellation too
                self.reply_lost(worker_id)
                raise

    def heard_of(self, claims: Sequence[Claim]) -> None:
        """Note claims whose reply arrived."""
        if claims:
            self._newest_token = max(self._newest_token, claims[0].token)

    def reply_lost(self, worker_id: str) -> None:
        """Note that a claim was sent under this worker id, and that its reply was lost or came too late."""
        now = time.monotonic()
        earlier = [look for look in self._looks if look.worker_id == worker_id]
        heard_of = min([self._newest_token, *(look.heard_of for look in earlier)])
        self._looks = [look for look in self._looks if look not in earlier]
        self._looks += [_Look(now + seconds, worker_id, heard_of) for seconds in SECONDS_UNTIL_LOOKS]

    def until_next_look(self, seconds: float | None) -> float | None:
        """Return these seconds, or fewer if the next look is due earlier."""
        if not self._looks:
            return seconds
        look_in = max(0.0, min(look.at for look in self._looks) - time.monotonic())
        return look_in if seconds is None else min(look_in, seconds)

    async def give_back(self, *, at_once: bool = False) -> None:
        """Give back lost jobs, if there may be any and a look is due.

        at_once: True looks at once, because the worker will not claim again
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
        """Give back all lost jobs. Returns False if another session has locked some of their rows."""
        async with self._held.tokens_change:
            returned, is_any_left = await self._database.run(self._return(worker_id, heard_of))
        if returned:
            logger.warning(
                "a connection broke after %d jobs were locked for this worker and before the worker learned of them; "
                "it gave them back, so any worker can run them",
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
