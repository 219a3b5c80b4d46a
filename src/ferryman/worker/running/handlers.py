"""Calls a job's handler on the event loop, in a thread or in a child process, and turns its end into an outcome."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.client.lazy_clients import same_queue
from ferryman.errors import PoolClosedError, WorkerCrashed
from ferryman.traces import with_trace_of
from ferryman.worker import sync_points
from ferryman.worker.running.batch_results import BatchResult
from ferryman.worker.running.children.log_records import hand_on
from ferryman.worker.running.children.messages import (
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildLog,
    ChildProgress,
    ChildUsedLease,
)
from ferryman.worker.running.children.orders import ChildOrder
from ferryman.worker.running.children.pool import LostBeforeStartError
from ferryman.worker.running.decisions import batch_ending, decided_by, retry_seconds
from ferryman.worker.running.django_connections import with_usable_connections
from ferryman.worker.running.forks import generation, leave_if_forked
from ferryman.worker.settling.outcomes import (
    ChildCrash,
    Completed,
    Ending,
    Failed,
    Snoozed,
    Unstarted,
    describe,
    storable_error,
    traceback_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ferryman.context import WorkerContext
    from ferryman.retries import OnCrash
    from ferryman.tasks import Task
    from ferryman.traces import Tracing
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.running.cancellations import Cancellations
    from ferryman.worker.running.children.messages import ChildNote
    from ferryman.worker.running.children.pool import ChildPool
    from ferryman.worker.running.threads import Threads
    from ferryman.worker.settling.outcomes import Interrupted
    from ferryman.worker.start_guard import StartGuard

    HandlerCall = Callable[[Claim, WorkerContext | None], Awaitable[Any]]
    """Calls the handler of a task for a job."""

logger = logging.getLogger("ferryman.worker")


class ChildTaskError(Exception):
    """Stands for an exception that a task raised in a child process."""

    def __init__(self, failure: ChildFailure) -> None:
        kind = failure.error_type.rpartition(".")[2]
        super().__init__(f"{kind}: {failure.message}" if failure.message else kind)
        self.failure = failure


class ChildDecidedError(Exception):
    """Stands for a decision that a task made in a child process: `Fail`, `Retry`, `Snooze`, or about its items."""

    def __init__(self, decision: ChildDecision) -> None:
        super().__init__()
        self.decision = decision


class OverTimeError(TimeoutError):
    """An attempt took longer than its task allows."""


class Handlers:
    """Calls handlers: on the loop, in a thread, in a child process.

    guard: says whether a job may be started; asked again when there is a child process for it
    tracing: passes the span of a job to its child process
    on_crash, max_crashes: what happens to a job whose child process died, unless its task says otherwise
    crash_window: how long a crash counts
    """

    def __init__(
        self,
        threads: Threads,
        children: ChildPool,
        *,
        cancellations: Cancellations,
        interrupted: Interrupted,
        guard: StartGuard,
        on_crash: OnCrash = "requeue",
        max_crashes: int | None = 3,
        crash_window: timedelta = timedelta(hours=72),
        tracing: Tracing | None = None,
    ) -> None:
        self._threads = threads
        self._children = children
        self._cancellations = cancellations
        self._cancelled = cancellations.claims
        self._interrupted = interrupted
        self._may_start = guard.may_start
        self._on_crash = on_crash
        self._max_crashes = max_crashes
        self._crash_window = crash_window
        self._tracing = tracing
        self._generation = generation()

    def caller(self, task: Task[..., Any]) -> HandlerCall:
        """The function that calls the handler of this task where the task wants to run."""
        if task.running.run_in == "process":
            return functools.partial(self._call_in_child, task)
        call = self._caller_on_loop(task) if task.running.run_in == "loop" else self._caller_in_thread(task)
        return call if task.running.timeout is None else _limiting(call, task.running.timeout)

    async def handle(
        self,
        task: Task[..., Any],
        call: HandlerCall,
        claim: Claim,
        context: WorkerContext | None,
        cancelling: Callable[[], int],
    ) -> Ending:
        """Run the handler to its end. Only cancelling the caller ends it early.

        call: calls the handler; from `caller`
        context: for tasks that ask for it, and those that run in a child process
        cancelling: returns how often the asyncio task that runs it was cancelled
        """
        started = time.monotonic()
        try:
            result = await call(claim, context)
        except LostBeforeStartError:
            return Unstarted()
        except BaseException as error:  # noqa: BLE001 - nothing that a handler raises may hurt the worker
            leave_if_forked(self._generation, error)
            was_cancelled = await self._cancellations.was_cancelled(claim)
            return self._after_error(task, claim, error, was_cancelled=was_cancelled)
        leave_if_forked(self._generation, None)
        sync_points.reach("handler_done")
        if (cancelling() or self._cancelled) and await self._cancellations.was_cancelled(claim):
            # A handler that swallows its cancellation and returns has not said that it finished.
            return self._interrupted
        seconds = time.monotonic() - started
        return self._after_batch(task, claim, result, seconds) if task.running.is_batch else Completed(seconds)

    def _caller_on_loop(self, task: Task[..., Any]) -> HandlerCall:
        decode, function = task.decode, task.function

        def call(claim: Claim, context: WorkerContext | None) -> Awaitable[Any]:
            arguments = decode(claim.payload_json, context)
            called: Awaitable[Any] = function(*arguments.args, **arguments.kwargs)
            return called

        return call

    def _caller_in_thread(self, task: Task[..., Any]) -> HandlerCall:
        async def call(claim: Claim, context: WorkerContext | None) -> Any:
            arguments = task.decode(claim.payload_json, context)
            function = functools.partial(task.function, *arguments.args, **arguments.kwargs)
            result = await self._threads.run(functools.partial(with_usable_connections, function))
            # A plain function may hand out a coroutine, as a wrapper around an async one does.
            return await result if inspect.isawaitable(result) else result

        return call

    async def _call_in_child(self, task: Task[..., Any], claim: Claim, context: WorkerContext | None) -> Any:
        assert context is not None  # noqa: S101 - asked for by the caller
        span = None if self._tracing is None else self._tracing.current()
        order = ChildOrder.of(task, context.job, context.worker_id, context.lease, _queue_of(context), traceparent=span)
        result = await self._children.run(
            order,
            task.running.timeout,
            on_note=functools.partial(_take_note, context),
            may_start=functools.partial(self._may_start, claim),
        )
        match result:
            case ChildFailure() as failure:
                raise ChildTaskError(failure)
            case ChildDecision() as decision:
                raise ChildDecidedError(decision)

    def _after_batch(self, task: Task[..., Any], claim: Claim, result: Any, seconds: float) -> Ending:
        if isinstance(result, BatchResult) and isinstance(result.error, BaseException):
            return self._after_error(task, claim, result.error, was_cancelled=False)
        return batch_ending(task, claim.attempts, claim.payload_json, result, seconds)

    def _after_error(self, task: Task[..., Any], claim: Claim, error: BaseException, *, was_cancelled: bool) -> Ending:
        decided = decided_by(error, task, claim.attempts)
        if decided is None and isinstance(error, ChildDecidedError):
            decided = error.decision.ending
        if decided is not None:
            return _in_its_trace(decided, claim)
        match error:
            case _ if isinstance(error, PoolClosedError) or was_cancelled:
                # A handler may turn its cancellation into another error; the cancellation is still why it ended.
                return self._interrupted
            case OverTimeError() if task.running.timeout is not None:
                seconds = task.running.timeout.total_seconds()
                delay = retry_seconds(task, claim.attempts, error)
                return Failed(f"TimeoutError: the attempt took longer than {seconds:g} s", delay=delay)
            case ChildTaskError():
                return Failed(_told(error), delay=error.failure.delay)
            case _:
                return self._after_failure(task, claim, error)

    def _after_failure(self, task: Task[..., Any], claim: Claim, error: BaseException) -> Failed:
        told = _told(error)
        if not isinstance(error, WorkerCrashed) or not error.has_begun:
            return Failed(told, delay=retry_seconds(task, claim.attempts, error))
        if (task.running.on_crash or self._on_crash) == "fail":
            return Failed(told, is_final=True)  # what it has done by then must not be done twice
        own = task.running.max_crashes
        most = self._max_crashes if own is msgspec.UNSET else own
        hours = self._crash_window.total_seconds() / 3600
        crash = ChildCrash(
            most,
            self._crash_window.total_seconds(),
            storable_error(
                f"{describe(error)}. At {most} or more crashes within {hours:g} h a job fails for good. "
                f"Fix the cause, then run it again with `ferryman jobs retry {claim.job_id}`.\n\n{told}"
            ),
        )
        return Failed(told, delay=retry_seconds(task, claim.attempts, error), crash=crash)


def _in_its_trace(ending: Snoozed | Failed, claim: Claim) -> Snoozed | Failed:
    """The ending; a payload that the handler has replaced keeps its trace."""
    if not isinstance(ending, Failed) or ending.payload_json is None:
        return ending
    return msgspec.structs.replace(ending, payload_json=with_trace_of(ending.payload_json, claim.payload_json))


def _queue_of(context: WorkerContext) -> Mapping[str, Any] | None:
    """How a child process reaches the queue, if its handler wants to."""
    return None if context.client is None else same_queue(context.client)


def _take_note(context: WorkerContext, note: ChildNote) -> object:
    """Handle a note of a child process. Returns the answer if the note is a question."""
    match note:
        case ChildLog():
            hand_on(note)
        case ChildProgress():
            context.report(note.fraction, note.message)
        case ChildUsedLease() if context.lease is not None:
            context.lease.is_used = True
        case ChildAsksKeys() if context.lease is not None:
            return context.lease.learn_keys()
    return None


def _limiting(call: HandlerCall, limit: timedelta) -> HandlerCall:
    async def limited(claim: Claim, context: WorkerContext | None) -> Any:
        timing = asyncio.timeout(limit.total_seconds())
        try:
            async with timing:
                return await call(claim, context)
        except TimeoutError as error:
            # The handler may have limits of its own, and say so in the same way.
            if timing.expired():
                raise OverTimeError from error
            raise

    return limited


def _told(error: BaseException) -> str:
    """The exception and where it came from, as the job's error."""
    try:
        trace = traceback_of(error).strip()
    except Exception:  # noqa: BLE001 - an exception that cannot be printed is still a failure
        trace = ""
    if isinstance(error, ChildTaskError):
        trace = error.failure.traceback_text
        return storable_error(f"{error}\n\n{trace}")
    return storable_error(f"{describe(error)}\n\n{trace}".rstrip())
