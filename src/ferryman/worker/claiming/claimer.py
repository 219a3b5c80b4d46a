"""Asks the database for jobs."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.errors import DatabaseUnavailableError, NotConnectedError
from ferryman.queries.claim import register_tasks
from ferryman.worker import sync_points
from ferryman.worker.claiming.claims import Claimed, claimed_from_rows, task_ids
from ferryman.worker.claiming.lost_replies import LostClaims
from ferryman.worker.claiming.search import PLAIN, Reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import ForbiddenFlags
    from ferryman.worker.running.suspects import Suspects

SECONDS_BETWEEN_REGISTRATIONS = 60.0
"""How long a busy worker may overlook the jobs of a task that was cleaned away and came back under another number."""


def _nothing(_: str) -> Sequence[Claim]:
    return ()


class Claimer:
    """Claims jobs for one worker, and knows the numbers of its tasks.

    known, renewing: see `LostClaims`
    suspects: which jobs that have crashed before may be claimed; None: all of them
    """

    def __init__(
        self,
        connection: TimedDatabase,
        identity: Identity,
        identifiers: Sequence[str],
        *,
        forbidden_flags: ForbiddenFlags,
        use_local_time: bool,
        durable: bool = True,
        known: Callable[[], Iterable[Claim]] = tuple,
        renewing: asyncio.Lock | None = None,
        suspects: Suspects | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._identity = identity
        self._identifiers = identifiers
        self._forbidden_flags = forbidden_flags
        self._use_local_time = use_local_time
        self._durable = durable
        self._suspects = suspects
        self._reaching = Reaching()
        self._lost = LostClaims(connection, identity, known, renewing or asyncio.Lock())
        self.tasks: Mapping[int, str] = {}
        """The identifiers of our tasks, by the numbers that they have now."""
        self.all_tasks: Mapping[int, str] = {}
        """The same, with the numbers that they had before: jobs that were claimed by these may still run."""
        self._registered_at = 0.0
        self.has_claimed = asyncio.Event()
        """Set when the first claim was answered."""

    async def register(self) -> None:
        """Give each of our tasks a number, and learn it."""
        tasks: Mapping[int, str] = {}
        started_at = self._clock()
        while len(tasks) < len(self._identifiers):
            tasks = task_ids(await self._connection.fetch(register_tasks(self._identifiers)))
        # Only now: jobs that were claimed by the old numbers may start at any time, and this may fail.
        self.tasks, self.all_tasks = tasks, {**self.all_tasks, **tasks}
        self._registered_at = started_at

    async def claim(
        self, wanted: int, borrow: Callable[[str], Sequence[Claim]] = _nothing, *, is_announced: bool = False
    ) -> Claimed:
        """Claim up to so many jobs.

        is_announced: whether somebody has said that there are jobs
        borrow: asked last of all for claims in this name without a queue, whose jobs are finished: they are deleted in
            passing
        """
        worker_id = self._identity.id
        forbidden_flags = await self._flags_to_avoid()
        await self._lost.give_back()
        if self._clock() >= self._registered_at + SECONDS_BETWEEN_REGISTRATIONS:
            await self.register()  # a claim that finds jobs does not say whether all our tasks still exist
        reach = self._reaching.reach(is_announced=is_announced)
        call = reach.search.value(
            worker_id,
            list(self.tasks),
            wanted=wanted,
            window=reach.window(wanted),
            now=datetime.now(UTC) if self._use_local_time else None,
            forbidden_flags=forbidden_flags,
            done=[(claim.job_id, claim.token) for claim in borrow(worker_id)],
            durable=self._durable,
        )
        try:
            claimed = claimed_from_rows(await self._connection.fetch(call), worker_id)
        except NotConnectedError:
            raise
        except BaseException:  # whatever it is, the claim may be committed
            self._lost.suspect(worker_id)
            self._reaching.has_failed()
            raise
        if claimed.claims and worker_id != self._identity.id:
            # We were swept while we asked. What the old name holds would be an orphan's: nobody stands up for it.
            self._lost.suspect(worker_id)
            return await self._claim_again(wanted, claimed)
        self._lost.heard_of(claimed)
        self.has_claimed.set()
        if claimed.claims:
            sync_points.reach("after_claim")
        self._reaching.came_back(reach, wanted, claimed)
        if reach is PLAIN and not claimed.claims:
            # It does not say why: there may be jobs with queues, or our tasks may be gone.
            return await self._claim_again(wanted, claimed)
        if claimed.known_tasks is not None and claimed.known_tasks < len(self.tasks):
            # Somebody cleaned our tasks away while we had no jobs; those that came since have other numbers.
            return await self._claim_again(wanted, claimed, registers=True)
        return self._lost.remind(self._admitted(claimed))

    async def _claim_again(self, wanted: int, before: Claimed, *, registers: bool = False) -> Claimed:
        """Claim by another statement. The one before has completed what was borrowed."""
        try:
            if registers:
                await self.register()
            return replace(await self.claim(wanted), done=before.done)
        except NotConnectedError as error:
            # Not this one, but the one before was sent: what was borrowed is in doubt.
            raise DatabaseUnavailableError(str(error)) from error

    def _admitted(self, claimed: Claimed) -> Claimed:
        """The same without jobs that may not run here now, which are given back."""
        if self._suspects is None:
            return claimed
        claims = self._suspects.admit(claimed.claims)
        return claimed if claims is claimed.claims else replace(claimed, claims=claims)

    async def give_back_lost(self) -> None:
        """Give back what was claimed and never heard of, when no claim will be made any more."""
        await self._lost.give_back(at_once=True)

    @property
    def is_looking_further(self) -> bool:
        """Whether there may be jobs beyond what the last claim looked at."""
        return self._reaching.is_looking_further

    @property
    def has_all(self) -> bool:
        """Whether the last claim left nothing behind: none need be made before the next job is due or announced."""
        return self._reaching.has_all

    @property
    def flags_can_change(self) -> bool:
        """Whether jobs that were left alone because of their flags may be claimed the next time."""
        return callable(self._forbidden_flags)

    async def _flags_to_avoid(self) -> Sequence[str]:
        flags = self._forbidden_flags
        if callable(flags):
            answer = flags()
            flags = (await answer if inspect.isawaitable(answer) else answer) or ()
        return flags if self._suspects is None else [*flags, *self._suspects.forbidden_flags()]
