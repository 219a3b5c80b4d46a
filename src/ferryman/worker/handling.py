"""Runs the handler of a job where its task wants it, and tells how that ended."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ferryman.control import Fail, Retry, Snooze
from ferryman.worker import sync_points
from ferryman.worker.batches import BatchResult, batch_outcome
from ferryman.worker.children import (
    ChildAsksKeys,
    ChildFailure,
    ChildLog,
    ChildOrder,
    ChildProgress,
    ChildSuccess,
    ChildUsedLease,
    PoolClosedError,
    WorkerCrashed,
    hand_on,
)
from ferryman.worker.forks import generation, leave_if_forked
from ferryman.worker.outcomes import Completed, Crash, Ending, Failed, Snoozed, describe, storable_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ferryman.context import WorkerContext
    from ferryman.retries import OnCrash
    from ferryman.tasks import Task
    from ferryman.worker.children import ChildNote, ChildPool
    from ferryman.worker.claims import Claim
    from ferryman.worker.outcomes import Interrupted
    from ferryman.worker.threads import Threads

    Call = Callable[[Claim, WorkerContext | None], Awaitable[Any]]
    """Calls the handler of a task for a job."""

logger = logging.getLogger("ferryman.worker")


class ChildTaskError(Exception):
    """Stands for an exception of a child process that could not be brought over."""

    def __init__(self, failure: ChildFailure) -> None:
        super().__init__(f"{failure.error_type}: {failure.message}")
        self.failure = failure


class Handlers:
    """Calls handlers: on the loop, in a thread, in a child process.

    on_crash, max_crashes: what becomes of a job whose process died, unless its task says otherwise
    crash_window: how long a crash counts
    """

    def __init__(
        self,
        threads: Threads,
        children: ChildPool,
        *,
        interrupted: Interrupted,
        on_crash: OnCrash = "requeue",
        max_crashes: int | None = 3,
        crash_window: timedelta = timedelta(hours=72),
    ) -> None:
        self._threads = threads
        self._children = children
        self._interrupted = interrupted
        self._on_crash = on_crash
        self._max_crashes = max_crashes
        self._crash_window = crash_window
        self._generation = generation()

    def caller(self, task: Task[..., Any]) -> Call:
        """How to call the handler of this task where it wants to run."""
        if task.running.run_in == "process":
            return functools.partial(self._call_in_child, task)
        call = self._caller_on_loop(task) if task.running.run_in == "loop" else self._caller_in_thread(task)
        return call if task.running.timeout is None else _limiting(call, task.running.timeout)

    async def handle(
        self,
        task: Task[..., Any],
        call: Call,
        claim: Claim,
        context: WorkerContext | None,
        cancelling: Callable[[], int],
    ) -> Ending:
        """Run the handler to its end, whatever it does. Only cancelling the caller ends it early.

        call: how to call it, from `caller`
        context: needed by tasks that ask for it, and by those that run in a child process
        cancelling: of the asyncio task that runs it
        """
        started = time.monotonic()
        try:
            result = await call(claim, context)
        except BaseException as error:  # noqa: BLE001 - nothing that a handler raises may hurt the worker
            leave_if_forked(self._generation, error)
            return self._after_error(task, claim, error, was_cancelled=cancelling() > 0)
        leave_if_forked(self._generation, None)
        sync_points.reach("handler_done")
        if cancelling():
            # A handler that swallows its cancellation and returns has not said that it finished.
            return self._interrupted
        seconds = time.monotonic() - started
        return self._after_batch(task, claim, result, seconds) if task.running.is_batch else Completed(seconds)

    def _caller_on_loop(self, task: Task[..., Any]) -> Call:
        decode, function = task.decode, task.function

        def call(claim: Claim, context: WorkerContext | None) -> Awaitable[Any]:
            arguments = decode(claim.payload_json, context)
            called: Awaitable[Any] = function(*arguments.args, **arguments.kwargs)
            return called

        return call

    def _caller_in_thread(self, task: Task[..., Any]) -> Call:
        async def call(claim: Claim, context: WorkerContext | None) -> Any:
            arguments = task.decode(claim.payload_json, context)
            result = await self._threads.run(functools.partial(task.function, *arguments.args, **arguments.kwargs))
            # A plain function may hand out a coroutine, as a wrapper around an async one does.
            return await result if inspect.isawaitable(result) else result

        return call

    async def _call_in_child(self, task: Task[..., Any], _: Claim, context: WorkerContext | None) -> Any:
        assert context is not None  # noqa: S101 - asked for by the caller
        order = ChildOrder.of(task, context.job, context.worker_id, context.lease)
        match await self._children.run(order, task.running.timeout, on_note=functools.partial(_take_note, context)):
            case ChildSuccess(value=value):
                return value
            case failure:
                raise failure.exception or ChildTaskError(failure)

    def _after_batch(self, task: Task[..., Any], claim: Claim, result: Any, seconds: float) -> Ending:
        if isinstance(result, BatchResult) and isinstance(result.error, BaseException):
            return self._after_error(task, claim, result.error, was_cancelled=False)
        outcome = batch_outcome(claim.payload_json, result, seconds)
        if isinstance(outcome, Failed):
            return replace(outcome, delay=_delay(task, claim, RuntimeError(outcome.error)))
        return outcome

    def _after_error(self, task: Task[..., Any], claim: Claim, error: BaseException, *, was_cancelled: bool) -> Ending:
        match error:
            case Snooze():
                return Snoozed(error.delay.total_seconds())
            case Fail():
                return Failed(describe(error), is_final=True)
            case Retry():
                after = _delay(task, claim, error) if error.after is None else max(0.0, error.after.total_seconds())
                return Failed(describe(error), delay=after, payload_json=error.payload_json)
            case _ if isinstance(error, PoolClosedError) or was_cancelled:
                # Whatever else a handler makes of its cancellation, that is why it ended.
                return self._interrupted
            case TimeoutError() if task.running.timeout is not None and not str(error):
                seconds = task.running.timeout.total_seconds()
                return Failed(
                    f"TimeoutError: the attempt took longer than {seconds:g} s", delay=_delay(task, claim, error)
                )
            case _:
                return self._after_failure(task, claim, error)

    def _after_failure(self, task: Task[..., Any], claim: Claim, error: BaseException) -> Failed:
        told = _told(error)
        if not isinstance(error, WorkerCrashed) or not error.has_begun:
            return Failed(told, delay=_delay(task, claim, error))
        if (task.running.on_crash or self._on_crash) == "fail":
            return Failed(told, is_final=True)  # what it has done by then must not be done twice
        own = task.running.max_crashes
        most = self._max_crashes if own is msgspec.UNSET else own
        hours = self._crash_window.total_seconds() / 3600
        crash = Crash(
            most,
            self._crash_window.total_seconds(),
            storable_error(
                f"{describe(error)}. This was crash number {most} within {hours:g} h, so the job failed for good. "
                f"Fix the cause, then reschedule it with attempts=0.\n\n{told}"
            ),
        )
        return Failed(told, delay=_delay(task, claim, error), crash=crash)


def _take_note(context: WorkerContext, note: ChildNote) -> object:
    """Do what follows from it; the answer, if it is a question."""
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


def _limiting(call: Call, limit: timedelta) -> Call:
    async def limited(claim: Claim, context: WorkerContext | None) -> Any:
        async with asyncio.timeout(limit.total_seconds()):
            return await call(claim, context)

    return limited


def _delay(task: Task[..., Any], claim: Claim, error: BaseException) -> float | None:
    try:
        delay = task.running.retry.delay(claim.attempts, error)
    except Exception:
        logger.exception(
            "the retry policy of %r failed; the usual delay is used",
            task.identifier,
            extra={"event": "retry_policy_failed", "task": task.identifier},
        )
        return None
    return None if delay is None else max(0.0, delay.total_seconds())


def _told(error: BaseException) -> str:
    """The exception and where it came from, as the job's error."""
    try:
        trace = "".join(traceback.format_exception(error)).strip()
    except Exception:  # noqa: BLE001 - an exception that cannot be printed is still a failure
        trace = ""
    if isinstance(error, ChildTaskError):
        trace = error.failure.traceback_text
        return storable_error(f"{error}\n\n{trace}")
    return storable_error(f"{describe(error)}\n\n{trace}")
