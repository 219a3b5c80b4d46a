"""The jobs that a worker runs: started in free slots, settled when they end, cancelled when they must."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ferryman.worker.outcomes import Completed, Failed, Interrupted, Unstarted
from ferryman.worker.suspects import SECONDS_UNTIL_NEXT_ROOM

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferryman.tasks import Task
    from ferryman.worker.attempts import Attempts
    from ferryman.worker.claims import Claim
    from ferryman.worker.interruptions import Interruptions
    from ferryman.worker.outcomes import Outcome
    from ferryman.worker.settler import Settler
    from ferryman.worker.start_marks import StartMarks
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

SECONDS_AFTER_CANCELLING = 5.0
"""How long handlers may take to notice that they were cancelled."""
SECONDS_OF_A_TURN = 0.0005
"""How long a slot may go on from job to job before others have their turn; all handlers share the loop."""
_STARTS = Unstarted()
"""The outcome of a job that is about to start, and of one that cannot after all."""


class Running:
    """Claims that have a slot: their jobs run, or are about to begin.

    Jobs begin in one slot at first. Small ones, that do not wait for anything, all end there, one after the other; when
    one of them does wait, the others get slots of their own. So a worker that is full of small jobs still hears from
    the database twice in a millisecond.

    concurrency: how many slots there are
    take: the next job for a free slot, if one waits in a local queue
    marks: where the start of a job is marked, for those that need it; None if no job does
    make_room: waits until a job that must run alone does; False if it must go back
    is_fenced: whether others may have taken this worker for dead
    on_end: called when a slot is free again
    """

    def __init__(
        self,
        attempts: Attempts,
        settler: Settler,
        stop: Stopping,
        *,
        concurrency: int,
        find_task: Callable[[Claim], Task[..., Any]],
        take: Callable[[], Claim | None],
        marks: StartMarks | None,
        make_room: Callable[[Claim], Awaitable[bool]],
        is_fenced: Callable[[], bool],
        interruptions: Interruptions,
        on_end: Callable[[], None],
    ) -> None:
        self._attempts = attempts
        self._settler = settler
        self._stop = stop
        self._concurrency = concurrency
        self._find_task = find_task
        self._take = take
        self._marks = marks
        self._make_room = make_room
        self._is_fenced = is_fenced
        self._interruptions = interruptions
        self._on_end = on_end
        self._tasks: dict[Claim, asyncio.Task[None]] = {}
        self._waiting: deque[Claim] = deque()
        """Those that have not begun."""
        self._unmarked: set[Claim] = set()
        self._context: contextvars.Context | None = None
        """That of the worker, before any handler has touched it."""

    @property
    def claims(self) -> list[Claim]:
        """All of them."""
        return [*self._tasks, *self._waiting]

    @property
    def begun(self) -> list[Claim]:
        """Those whose attempts have begun; others may still wait for their turn, or for their mark."""
        return [claim for claim in self._tasks if claim not in self._unmarked]

    def __len__(self) -> int:
        return len(self._tasks) + len(self._waiting)

    def __contains__(self, claim: object) -> bool:
        return claim in self._tasks

    def start(self, claims: Sequence[Claim]) -> None:
        """Run the jobs of these claims, or give them back if the worker is ending, or may have lost them."""
        self._waiting.extend(claims)
        self.serve()

    def serve(self) -> None:
        """Begin with what waits, here or in a local queue."""
        first = self._begin_next()
        if first is not None:
            asyncio.get_running_loop().call_soon(self._serve_others, first)

    def lose_all_but(self, worker_id: str) -> None:
        """Others have what was claimed in another name than this. Handlers are told, and cancelled if that works."""
        for claim in self.claims:
            if claim.worker_id != worker_id:
                self.lose(claim)

    def lose(self, claim: Claim) -> None:
        """Somebody else has it, unless it has ended. Its handler is told, and cancelled if that works."""
        task = self._tasks.get(claim)
        if task is None and claim in self._waiting:
            self._waiting.remove(claim)
            self._has_ended()
        if task is not None:
            self._attempts.lose(claim)
            task.cancel()
            # One that is cancelled before its first step never takes it.
            task.add_done_callback(lambda _: self._forget(claim))

    async def end(self, grace_seconds: float) -> None:
        """Let jobs end within this time, then cancel them, then let go of those that do not listen."""
        self._give_back_waiting()
        await self._wait(grace_seconds, or_hurry=True)
        for task in self._tasks.values():
            task.cancel()
        await self._wait(SECONDS_AFTER_CANCELLING, or_hurry=False)
        for claim in [*self._tasks]:
            logger.error(
                "job %d goes on although it was cancelled; it is given back all the same",
                claim.job_id,
                extra={"event": "cancellation_ignored", "job_id": claim.job_id},
            )
            del self._tasks[claim]
            await self._settle_interrupted(self._find_task(claim), claim, self._interruptions.usual)

    def describe(self, task: asyncio.Task[object]) -> str | None:
        """For the log: the job that an asyncio task runs. From any thread."""
        for claim, running in [*self._tasks.items()]:
            if running is task:
                return f"task {self._find_task(claim).identifier!r} (job {claim.job_id})"
        return None

    def _serve_others(self, first: asyncio.Task[None]) -> None:
        """Give all others slots of their own, unless the first one has come to its end; then it has called `serve`."""
        while not first.done() and self._begin_next() is not None:
            pass

    def _begin_next(self) -> asyncio.Task[None] | None:
        claim = self._next()
        if claim is None:
            return None
        if self._context is None:
            self._context = contextvars.copy_context()
        # In a context of its own: what a handler leaves there is no business of the next.
        task = asyncio.create_task(self._run(claim), name="a worker's slot", context=self._context.copy())
        self._tasks[claim] = task
        return task

    def _next(self) -> Claim | None:
        """The next one that may begin now, if a slot is free. Those that wait here and may not are given back.

        A claim can be older than it looks: the process may have been stopped while the reply was on its way.
        """
        if self._stop.begun.is_set() or self._is_fenced():
            self._give_back_waiting()
            return None
        if self._waiting:
            return self._waiting.popleft()
        return self._take() if len(self._tasks) < self._concurrency else None

    def _give_back_waiting(self) -> None:
        while self._waiting:
            self._settler.settle(self._waiting.popleft(), Unstarted())

    async def _run(self, claim: Claim) -> None:
        """Make an attempt, and go on with the next job that waits here if nothing is left of this one.

        To make an asyncio task costs as much as all else that a small job needs.
        """
        me = asyncio.current_task()
        assert me is not None  # noqa: S101 - it is a coroutine
        turn_ends = time.monotonic() + SECONDS_OF_A_TURN
        following: Claim | None = claim
        is_fenced = self._is_fenced()  # the process may have been stopped since this began
        while following is not None:
            is_traceless = await self._attempt(following, me, is_fenced=is_fenced) and self._is_untouched()
            following = self._next() if is_traceless and time.monotonic() < turn_ends else None
            if following is not None:
                self._tasks[following] = me
        self._has_ended()

    async def _attempt(self, claim: Claim, me: asyncio.Task[None], *, is_fenced: bool) -> bool:
        """Make an attempt and settle its outcome; whether it has simply completed."""
        outcome: Outcome | None = _STARTS
        try:
            task = self._find_task(claim)
            if self._marks is not None and self._marks.are_needed(task, claim):
                outcome = await self._before_start(self._marks, claim)
                is_fenced = self._is_fenced()
            if outcome is _STARTS and not is_fenced:
                outcome = self._interruptions.usual
                outcome = await self._attempts.of(task)(claim, me.cancelling)
        except asyncio.CancelledError:
            pass
        except BaseException:  # a handler that awaits a future which ends with GeneratorExit closes all of us
            logger.exception(
                "job %d could not be run", claim.job_id, extra={"event": "job_not_run", "job_id": claim.job_id}
            )
            outcome = Failed("the worker could not run this job; see its log")
        if claim not in self._tasks:
            pass  # given up, and settled already
        elif isinstance(outcome, Interrupted):
            await self._settle_interrupted(self._find_task(claim), claim, outcome)
        elif outcome is not None:
            self._settler.settle(claim, outcome)
        self._tasks.pop(claim, None)
        return isinstance(outcome, Completed) and not me.cancelling()

    def _forget(self, claim: Claim) -> None:
        if self._tasks.pop(claim, None) is not None:
            self._has_ended()

    def _has_ended(self) -> None:
        if self._waiting:
            self.serve()
        self._on_end()

    def _is_untouched(self) -> bool:
        """Whether the context of the running asyncio task is still as it was at its start."""
        try:
            return contextvars.copy_context() == self._context
        except Exception:  # noqa: BLE001 - what handlers put there may be compared in any way
            return False

    async def _settle_interrupted(self, task: Task[..., Any], claim: Claim, outcome: Interrupted) -> None:
        decided = await self._interruptions.decide(task, claim) if self._stop.begun.is_set() else outcome
        if decided is None:
            self._settler.leave_locked(claim)
        else:
            self._settler.settle(claim, decided)

    async def _before_start(self, marks: StartMarks, claim: Claim) -> Unstarted | None:
        """Do what must be done before the job starts; `_STARTS` if it may, None if it is no longer ours."""
        self._unmarked.add(claim)
        try:
            if claim.runs_alone and not await self._make_room(claim):
                return Unstarted(SECONDS_UNTIL_NEXT_ROOM)
            return _STARTS if await marks.mark(claim) else None
        finally:
            self._unmarked.discard(claim)

    async def _wait(self, seconds: float, *, or_hurry: bool) -> None:
        if self._tasks:
            await self._stop.wait_for(asyncio.wait([*self._tasks.values()]), seconds, or_hurry=or_hurry)
