"""Claims jobs: sends claim statements, one after the other, until one has found jobs or shown that none is due."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ferryman.errors import NotConnectedError
from ferryman.worker import sync_points
from ferryman.worker.claiming.claims import Claimed, reply_from_rows
from ferryman.worker.claiming.search import PLAIN, SearchPlanner
from ferryman.worker.settling.buffers import NO_LOAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import ClaimReply
    from ferryman.worker.claiming.lost_replies import LostReplies
    from ferryman.worker.claiming.search import SearchPlan
    from ferryman.worker.claiming.task_numbers import TaskNumbers
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import ForbiddenFlags
    from ferryman.worker.running.suspects import Suspects
    from ferryman.worker.settling.buffers import Lender, Loan


class Claimer:
    """Claims jobs of this worker's tasks.

    suspects: which jobs that have crashed before may be claimed; None: all of them
    """

    def __init__(
        self,
        database: TimedDatabase,
        identity: Identity,
        tasks: TaskNumbers,
        lost: LostReplies,
        *,
        forbidden_flags: ForbiddenFlags,
        use_local_time: bool,
        durable: bool = True,
        suspects: Suspects | None = None,
    ) -> None:
        self._database = database
        self._identity = identity
        self._tasks = tasks
        self._lost = lost
        self._forbidden_flags = forbidden_flags
        self._use_local_time = use_local_time
        self._durable = durable
        self._suspects = suspects
        self._planner = SearchPlanner()
        self.has_claimed = asyncio.Event()
        """Set when the first claim was answered."""

    async def claim(self, wanted: int, lender: Lender | None = None, *, is_announced: bool = False) -> Claimed:
        """Claim at most `wanted` jobs.

        lender: has completions that the statement can write along; asked just before the statement is sent
        is_announced: True if new jobs were announced
        """
        claimed = await self._claim_once(wanted, lender, is_announced=is_announced)
        while claimed is None:
            claimed = await self._claim_once(wanted, None, is_announced=False)
        return claimed

    @property
    def flags_can_change(self) -> bool:
        """True if `forbidden_flags` is a function: a job skipped now may be allowed later."""
        return callable(self._forbidden_flags)

    @property
    def is_paused(self) -> bool:
        """True while a job runs alone, or waits for that."""
        return self._suspects is not None and self._suspects.wants_room

    async def _claim_once(self, wanted: int, lender: Lender | None, *, is_announced: bool) -> Claimed | None:
        """Claim by one statement; None if another one should follow at once."""
        worker_id = self._identity.id
        forbidden_flags = await self._flags_to_avoid()
        await self._tasks.refresh()  # a claim that finds jobs does not say whether all our tasks still exist
        async with self._lost.one_claim(worker_id):
            plan = self._planner.next_plan(is_announced=is_announced)
            with lender.lend(worker_id) if lender is not None else NO_LOAN as loan:
                reply = await self._send(worker_id, plan, wanted, forbidden_flags, loan)
            if reply.claims and worker_id != self._identity.id:
                # This worker was swept meanwhile. Jobs of the old id would look like an orphan's, so they go back.
                self._lost.reply_lost(worker_id)
                return None
            self._lost.heard_of(reply.claims)
        self.has_claimed.set()
        if reply.claims:
            sync_points.reach("after_claim")
        is_short = self._planner.learn(plan, wanted, reply)
        if plan is PLAIN and not reply.claims:
            # The reply does not say why: there may be jobs with queues, or our tasks may be gone.
            return None
        if reply.known_tasks is not None and reply.known_tasks < len(self._tasks.ids):
            # Our tasks were cleaned away while they had no jobs; they get other numbers.
            await self._tasks.register()
            return None
        return Claimed(
            claims=reply.claims if self._suspects is None else self._suspects.admit(reply.claims),
            is_short=is_short,
            left_nothing=not is_short and (reply.took_all or not reply.claims),
            next_due_in=self._lost.until_next_look(reply.next_due_in),
        )

    async def _send(
        self, worker_id: str, plan: SearchPlan, wanted: int, forbidden_flags: Sequence[str], loan: Loan
    ) -> ClaimReply:
        """Send the claim statement, which also deletes the completed jobs that were lent to it."""
        call = plan.search.value(
            worker_id,
            self._tasks.ids,
            wanted=wanted,
            window=plan.window(wanted),
            now=datetime.now(UTC) if self._use_local_time else None,
            forbidden_flags=forbidden_flags,
            done=loan.keys,
            durable=self._durable,
        )
        try:
            reply = reply_from_rows(await self._database.fetch(call), worker_id)
        except NotConnectedError:
            raise
        except BaseException:
            self._planner.failed()
            raise
        loan.completed(reply.done)
        return reply

    async def _flags_to_avoid(self) -> Sequence[str]:
        flags = self._forbidden_flags
        if callable(flags):
            answer = flags()
            flags = (await answer if inspect.isawaitable(answer) else answer) or ()
        return flags if self._suspects is None else [*flags, *self._suspects.forbidden_flags()]
