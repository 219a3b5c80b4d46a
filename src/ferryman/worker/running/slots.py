"""Runs claimed jobs in the worker's slots: starts them, settles their outcomes, cancels them at shutdown."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from ferryman.worker.running.suspects import SECONDS_UNTIL_NEXT_ROOM
from ferryman.worker.settling.job_log import format_job_count
from ferryman.worker.settling.outcomes import Completed, Failed, Interrupted, Unstarted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.task_numbers import TaskNumbers
    from ferryman.worker.identity import Identity
    from ferryman.worker.running.attempt import Attempts
    from ferryman.worker.running.cancellations import Cancellations
    from ferryman.worker.running.interruptions import Interruptions
    from ferryman.worker.running.start_marks import StartMarks
    from ferryman.worker.running.suspects import Suspects
    from ferryman.worker.settling.outcomes import Outcome
    from ferryman.worker.settling.settler import Settler
    from ferryman.worker.source import JobSource
    from ferryman.worker.start_guard import StartGuard
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

CANCEL_GRACE_SECONDS = 5.0
"""How long cancelled handlers have to stop before the worker gives their jobs back."""
TURN_SECONDS = 0.0005
"""How long one slot may run job after job before it yields the event loop to other handlers and database replies."""


class Slots:
    """The jobs that this worker runs, at most one per slot.

    New jobs first share one slot and run in it one after the other. If one of them has to wait, the rest get slots of
    their own. A slot yields after 0.5 ms, so a worker full of small jobs still reads the replies of the database.

    concurrency: how many slots there are
    tasks: finds the task of a claim
    guard: says whether a job may be started
    identity: the worker's id; claims made under an earlier id are lost
    marks: where the start of a job is marked, for those that need it; None if no job does
    suspects: makes room for jobs that must run alone; None if no job must
    """

    def __init__(
        self,
        attempts: Attempts,
        settler: Settler,
        stop: Stopping,
        *,
        concurrency: int,
        tasks: TaskNumbers,
        guard: StartGuard,
        identity: Identity,
        marks: StartMarks | None,
        suspects: Suspects | None,
        cancellations: Cancellations,
        interruptions: Interruptions,
    ) -> None:
        self._attempts = attempts
        self._settler = settler
        self._stop = stop
        self.concurrency = concurrency
        self._task_of = tasks.task_of
        self._guard = guard
        self._identity = identity
        self._marks = marks
        self._suspects = suspects
        self._cancellations = cancellations
        self._cancelled = cancellations.claims
        self._interruptions = interruptions
        self._take: Callable[[], Claim | None] = lambda: None
        self._slot_freed: Callable[[], None] = lambda: None
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._waiting: deque[Claim] = deque()
        """Claims that have not started."""
        self._unmarked: set[Claim] = set()
        self._clean_context: contextvars.Context | None = None
        """The worker's context, before any handler has touched it."""

    def draw_from(self, source: JobSource) -> None:
        """Take jobs for free slots from this source, and notify it when a slot becomes free."""
        self._take, self._slot_freed = source.take, source.slot_freed

    @property
    def held_claims(self) -> list[Claim]:
        """Every claim that has a slot, started or not."""
        return [*self._running, *self._waiting]

    @property
    def started(self) -> list[Claim]:
        """Claims whose handlers may be running: they wait neither for their turn nor for their start mark."""
        return [claim for claim in self._running if claim not in self._unmarked]

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self.concurrency - len(self._running) - len(self._waiting)

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    def __contains__(self, claim: object) -> bool:
        return claim in self._running

    def start(self, claims: Sequence[Claim]) -> None:
        """Run these jobs. Give them back instead if the worker is shutting down or may have lost them."""
        self._waiting.extend(claims)
        self.fill()

    def fill(self) -> None:
        """Start the jobs that wait, here or in the source."""
        first = self._start_next()
        if first is not None:
            asyncio.get_running_loop().call_soon(self._start_others, first)

    def lose_claims_of_other_ids(self, worker_id: str) -> None:
        """Lose every claim made under another id than this. Call it when the worker takes a new id after a sweep."""
        for claim in self.held_claims:
            if claim.worker_id != worker_id:
                self.lose(claim)

    def lose(self, claim: Claim) -> None:
        """Stop working on a job that this worker no longer owns: set `ctx.lease_lost`, and cancel its handler.

        Does nothing if the job has ended. A handler in a thread cannot be cancelled, and should check `ctx.lease_lost`.
        """
        task = self._running.get(claim)
        if task is None and claim in self._waiting:
            self._waiting.remove(claim)
            self._free_slot()
        if task is not None:
            self._attempts.lose(claim)
            self._cancellations.cancel(claim, task)
            # An asyncio task that is cancelled before its first step never runs its own clean-up.
            task.add_done_callback(lambda _: self._forget(claim))

    async def end(self, grace_seconds: float) -> None:
        """Shut down: wait for running jobs, cancel the rest, and give back those that ignore their cancellation.

        A thread cannot be cancelled. It may end by itself for as long as cancelled handlers have to stop.
        """
        self._give_back_waiting()
        if self._running:
            logger.info(
                "worker %s is stopping; waiting up to %g s for %s to end",
                self._identity.id,
                round(grace_seconds, 1),
                format_job_count(len(self._running)),
                extra={"event": "worker_stopping", "worker_id": self._identity.id, "count": len(self._running)},
            )
        await self._wait(grace_seconds, or_hurry=True)
        if self._running:
            logger.info(
                "worker %s is stopping; cancelling %s, because the grace period is over or was cut short",
                self._identity.id,
                format_job_count(len(self._running)),
                extra={"event": "jobs_cancelled", "worker_id": self._identity.id, "count": len(self._running)},
            )
        in_threads = {
            claim for claim in self._running.keys() - self._unmarked if self._task_of(claim).running.run_in == "thread"
        }
        for claim, task in self._running.items():
            if claim not in in_threads:
                self._cancellations.cancel(claim, task)
        await self._wait(CANCEL_GRACE_SECONDS, or_hurry=False)
        left = [*self._running.items()]
        self._running.clear()
        await asyncio.gather(*(self._let_go(claim, task) for claim, task in left), return_exceptions=True)

    async def _let_go(self, claim: Claim, task: asyncio.Task[None]) -> None:
        """Give a job back whose handler may still run."""
        if task.done():  # cancelled before its first step, it never took it
            self._settler.settle(claim, Unstarted())
            return
        logger.error(
            "the handler of job %d ignored its cancellation; giving the job back, so another worker may run it while "
            "this handler still runs",
            claim.job_id,
            extra={"event": "cancellation_ignored", "job_id": claim.job_id},
        )
        self._cancellations.cancel(claim, task)
        await self._settle_interrupted(claim, self._interruptions.usual)

    def describe(self, task: asyncio.Task[object]) -> str | None:
        """Name the job that an asyncio task runs, for log lines. Safe to call from any thread."""
        for claim, running in [*self._running.items()]:
            if running is task:
                return f"task {self._task_of(claim).identifier!r} (job {claim.job_id})"
        return None

    def _start_others(self, first: asyncio.Task[None]) -> None:
        """Give each waiting job its own slot if the first slot is still busy. If it is done, it has called `fill`."""
        while not first.done() and self._start_next() is not None:
            pass

    def _start_next(self) -> asyncio.Task[None] | None:
        claim = self._next()
        if claim is None:
            return None
        if self._clean_context is None:
            self._clean_context = contextvars.copy_context()
        # In a context of its own: what a handler leaves there must not reach the next. Not made by the loop, whose
        # task factory may be an eager one: a job would have ended before its claim is known to have a slot.
        loop, context = asyncio.get_running_loop(), self._clean_context.copy()
        task = asyncio.Task(self._run(claim), loop=loop, name="a worker's slot", context=context)
        self._running[claim] = task
        return task

    def _next(self) -> Claim | None:
        """The next job that may start now, if a slot is free. Jobs that wait here and may not start are given back.

        A claim can be older than it looks: the process may have been stopped while the reply was on its way.
        """
        if self._stop.begun.is_set() or self._guard.may_be_dead:
            self._give_back_waiting()
            return None
        # Read after the guard was asked: under a new id the worker is safe again, but its earlier claims are lost.
        name = self._identity.id
        while self._waiting:
            claim = self._waiting.popleft()
            if claim.worker_id == name:
                return claim
            self._settler.settle(claim, Unstarted())
        while len(self._running) < self.concurrency:
            taken = self._take()
            if taken is None or taken.worker_id == name:
                return taken
            self._settler.settle(taken, Unstarted())
        return None

    def _give_back_waiting(self) -> None:
        while self._waiting:
            self._settler.settle(self._waiting.popleft(), Unstarted())

    async def _run(self, claim: Claim) -> None:
        """Run a job, then the next waiting one in the same asyncio task, if this one left no trace.

        Creating an asyncio task costs as much as everything else that a small job needs.
        """
        slot = asyncio.current_task()
        assert slot is not None  # noqa: S101 - it is a coroutine
        turn_ends = time.monotonic() + TURN_SECONDS
        following: Claim | None = claim
        may_start = self._guard.may_start(claim)  # the process may have been stopped since this began
        try:
            while following is not None:
                is_traceless = await self._attempt(following, slot, may_start=may_start) and self._context_is_clean()
                following = self._next() if is_traceless and time.monotonic() < turn_ends else None
                if following is not None:
                    self._running[following] = slot
        finally:
            self._free_slot()

    async def _attempt(self, claim: Claim, slot: asyncio.Task[None], *, may_start: bool) -> bool:
        """Make one attempt and settle its outcome. True if the job completed and nothing was cancelled."""
        outcome: Outcome = Unstarted()
        try:
            task = self._task_of(claim)
            if self._marks is not None and self._marks.are_needed(task, claim):
                unstarted = await self._before_start(self._marks, claim)
                outcome = unstarted or outcome
                may_start = unstarted is None and self._guard.may_start(claim)
            if may_start:
                outcome = self._interruptions.usual
                outcome = await self._attempts.of(task)(claim, slot.cancelling)
        except asyncio.CancelledError:
            if isinstance(outcome, Interrupted) and not await self._cancellations.was_cancelled(claim):
                outcome = Failed("CancelledError: a hook of this attempt was cancelled, and not by the worker")
        except BaseException:  # a handler that awaits a future which ends with GeneratorExit closes all of us
            logger.exception(
                "job %d could not be run, because of an unexpected error around its handler; this attempt fails",
                claim.job_id,
                extra={"event": "job_not_run", "job_id": claim.job_id},
            )
            outcome = Failed("the worker could not run this job; see its log")
        try:
            if claim in self._running:  # else it was given up, and is settled already
                if isinstance(outcome, Interrupted):
                    await self._settle_interrupted(claim, outcome)
                else:
                    self._settler.settle(claim, outcome)
        finally:
            self._running.pop(claim, None)
            if self._cancelled:
                self._cancellations.forget(claim)
        return isinstance(outcome, Completed) and not slot.cancelling()

    def _forget(self, claim: Claim) -> None:
        self._cancellations.forget(claim)
        if self._running.pop(claim, None) is not None:
            self._free_slot()

    def _free_slot(self) -> None:
        if self._waiting:
            self.fill()
        self._slot_freed()

    def _context_is_clean(self) -> bool:
        """True if the handler left every context variable as it was."""
        try:
            return contextvars.copy_context() == self._clean_context
        except Exception:  # noqa: BLE001 - what handlers put there may be compared in any way
            return False

    async def _settle_interrupted(self, claim: Claim, outcome: Interrupted) -> None:
        decided: Interrupted | None = outcome
        try:
            if self._stop.begun.is_set() or self._stop.was_cancelled:
                decided = await self._interruptions.decide(claim)
        finally:  # the job is settled even if hooks cannot be asked
            if decided is None:
                self._settler.leave_locked(claim)
            else:
                self._settler.settle(claim, decided)

    async def _before_start(self, marks: StartMarks, claim: Claim) -> Unstarted | None:
        """Make room for the job and mark its start, where that is needed. None if it may start; else its outcome."""
        self._unmarked.add(claim)
        try:
            if claim.runs_alone and self._suspects is not None and not await self._suspects.make_room(claim):
                return Unstarted(None if self._stop.begun.is_set() else SECONDS_UNTIL_NEXT_ROOM)
            return None if await marks.mark(claim) and not self._stop.begun.is_set() else Unstarted()
        finally:
            self._unmarked.discard(claim)

    async def finish(self) -> None:
        """Wait for every job that has a slot, however long that takes."""
        while self._running:
            await asyncio.wait([*self._running.values()])

    async def _wait(self, seconds: float, *, or_hurry: bool) -> None:
        if self._running:
            await self._stop.wait_for(asyncio.wait([*self._running.values()]), seconds, or_hurry=or_hurry)
