"""Asks the database for jobs."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from ferryman.errors import NotConnectedError
from ferryman.queries import working
from ferryman.worker import sync_points
from ferryman.worker.claiming.claims import Claimed, reply_from_rows, task_ids
from ferryman.worker.claiming.lost_replies import LostReplies
from ferryman.worker.claiming.search import PLAIN, SearchPlanner
from ferryman.worker.settling.buffers import NO_LOAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.connection import WorkerConnection
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import ForbiddenFlags
    from ferryman.worker.running.suspects import Suspects
    from ferryman.worker.settling.buffers import Loan

SECONDS_BETWEEN_REGISTRATIONS = 60.0
"""How long a busy worker may overlook the jobs of a task that was cleaned away and came back under another number."""


class Lender(Protocol):
    """Whoever has completions that a claim can write along."""

    def lend(self, worker_id: str) -> Loan:
        """Those of claims in this name."""
        ...


class Claimer:
    """Claims jobs for one worker, and knows the numbers of its tasks.

    known, renewing: see `LostReplies`
    suspects: which jobs that have crashed before may be claimed; None: all of them
    """

    def __init__(
        self,
        connection: WorkerConnection,
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
        self._planner = SearchPlanner()
        self._lost = LostReplies(connection, identity, known, renewing or asyncio.Lock())
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
            tasks = task_ids(await self._connection.fetch(working.register_tasks(self._identifiers)))
        # Only now: jobs that were claimed by the old numbers may start at any time, and this may fail.
        self.tasks, self.all_tasks = tasks, {**self.all_tasks, **tasks}
        self._registered_at = started_at

    async def claim(self, wanted: int, lender: Lender | None = None, *, is_announced: bool = False) -> Claimed:
        """Claim at most `wanted` jobs.

        lender: has completions that the statement can write along; asked last of all
        is_announced: whether somebody has said that there are jobs
        """
        claimed = await self._claim_once(wanted, lender, is_announced=is_announced)
        while claimed is None:
            claimed = await self._claim_once(wanted, None, is_announced=False)
        return claimed

    async def _claim_once(self, wanted: int, lender: Lender | None, *, is_announced: bool) -> Claimed | None:
        """Claim by one statement; None if another one should follow at once."""
        worker_id = self._identity.id
        forbidden_flags = await self._flags_to_avoid()
        await self._lost.give_back()
        if self._clock() >= self._registered_at + SECONDS_BETWEEN_REGISTRATIONS:
            await self.register()  # a claim that finds jobs does not say whether all our tasks still exist
        plan = self._planner.next_plan(is_announced=is_announced)
        with lender.lend(worker_id) if lender is not None else NO_LOAN as loan:
            call = working.claim_jobs(
                worker_id,
                list(self.tasks),
                wanted=wanted,
                window=plan.window(wanted),
                now=datetime.now(UTC) if self._use_local_time else None,
                forbidden_flags=forbidden_flags,
                search=plan.search,
                done=loan.keys,
                durable=self._durable,
            )
            try:
                reply = reply_from_rows(await self._connection.fetch(call), worker_id)
            except NotConnectedError:
                raise
            except BaseException:  # whatever it is, the claim may be committed
                self._lost.suspect(worker_id)
                self._planner.failed()
                raise
            loan.completed(reply.done)
        if reply.claims and worker_id != self._identity.id:
            # We were swept while we asked. What the old name holds would be an orphan's: nobody stands up for it.
            self._lost.suspect(worker_id)
            return None
        self._lost.heard_of(reply.claims)
        self.has_claimed.set()
        if reply.claims:
            sync_points.reach("after_claim")
        is_short = self._planner.learn(plan, wanted, reply)
        if plan is PLAIN and not reply.claims:
            # It does not say why: there may be jobs with queues, or our tasks may be gone.
            return None
        if reply.known_tasks is not None and reply.known_tasks < len(self.tasks):
            # Somebody cleaned our tasks away while we had no jobs; those that came since have other numbers.
            await self.register()
            return None
        return Claimed(
            claims=reply.claims if self._suspects is None else self._suspects.admit(reply.claims),
            is_short=is_short,
            left_nothing=not is_short and (reply.took_all or not reply.claims),
            next_due_in=self._lost.until_next_look(reply.next_due_in),
        )

    async def give_back_lost(self) -> None:
        """Give back what was claimed and never heard of, when no claim will be made any more."""
        await self._lost.give_back(at_once=True)

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
