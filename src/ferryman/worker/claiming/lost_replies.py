"""Claims that the database holds for this worker, and of which it never heard.

A connection that is cut between the commit of a claim and its reply leaves jobs locked by a worker that lives, so that
no sweep would ever look for them. After such a cut the worker gives back every job that is locked by its id, except by
the claims that it knows. It looks several times: a request may lie in the network for a while, and be carried out
later.

Times are not compared: after a failover the clock of the database may have gone back, and a lost claim is then older
than the last one that came through. Only under an id that the worker no longer has, claims up to the newest that it had
heard of are left alone: whatever it held then belongs to the sweep that took its jobs.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ferryman.database.steps import Commit, Transaction
from ferryman.queries.claim import return_lost_claims

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from ferryman.database.steps import Steps
    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.identity import Identity

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_LOOKS = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
SECONDS_UNTIL_HELD_ROWS_ARE_FREE = 5.0
"""When to look again for what could not be given back, because somebody else worked on its row."""


class _Look(NamedTuple):
    at: float
    worker_id: str
    """Not always today's name: the worker may have been swept since."""
    heard_of: int
    """The newest claim that had come through by the time of the first suspicion."""


class LostClaims:
    """Gives back jobs whose claim was committed but whose reply was lost. Expects one claim at a time.

    known: the claims whose jobs run or wait to be run, whose outcomes wait to be written, or that are left locked
    renewing: held by whoever gives claims other tokens, so that what is known stays true
    """

    def __init__(
        self,
        connection: TimedDatabase,
        identity: Identity,
        known: Callable[[], Iterable[Claim]],
        renewing: asyncio.Lock,
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._known = known
        self._renewing = renewing
        self._newest_token = 0
        self._looks: list[_Look] = []

    def heard_of(self, claimed: Claimed) -> None:
        """Note claims that came through."""
        if claimed.claims:
            self._newest_token = max(self._newest_token, claimed.claims[0].token)

    def suspect(self, worker_id: str) -> None:
        """Note that a claim was sent in this name and no reply came, or came too late."""
        now = time.monotonic()
        earlier = [look for look in self._looks if look.worker_id == worker_id]
        heard_of = min([self._newest_token, *(look.heard_of for look in earlier)])
        self._looks = [look for look in self._looks if look not in earlier]
        self._looks += [_Look(now + seconds, worker_id, heard_of) for seconds in SECONDS_UNTIL_LOOKS]

    def remind(self, claimed: Claimed) -> Claimed:
        """The same, but not with a longer pause than until the next look."""
        if not self._looks:
            return claimed
        look_in = max(0.0, min(look.at for look in self._looks) - time.monotonic())
        due_in = look_in if claimed.next_due_in is None else min(look_in, claimed.next_due_in)
        return replace(claimed, next_due_in=due_in)

    async def give_back(self, *, at_once: bool = False) -> None:
        """Look for them, if there may be any and it is time to, or the last chance."""
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
        async with self._renewing:
            returned, is_any_left = await self._connection.run(self._return(worker_id, heard_of))
        if returned:
            logger.warning(
                "%d jobs were claimed over a connection that broke; they were given back",
                returned,
                extra={"event": "lost_claims_returned", "count": returned},
            )
        return not is_any_left

    def _return(self, worker_id: str, heard_of: int) -> Steps[tuple[int, bool]]:
        # This request, too, may be carried out late, when there are newer claims. Uncommitted, it comes to nothing.
        yield Transaction()
        known = [key for claim in self._known() for key in claim.keys]
        after = None if worker_id == self._identity.id else heard_of
        [(returned, is_any_left)] = yield return_lost_claims(worker_id, after=after, known=known)
        yield Commit()
        return int(returned), bool(is_any_left)
