"""Runs the handler of a job where its task wants it, and tells how that ended."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferryman.control import Fail, Retry, Snooze
from ferryman.worker import sync_points
from ferryman.worker.batches import BatchResult, batch_outcome
from ferryman.worker.children import ChildFailure, ChildOrder, ChildSuccess, PoolClosedError
from ferryman.worker.outcomes import Completed, Failed, Interrupted, Outcome, Snoozed, describe, storable_error

if TYPE_CHECKING:
    from ferryman.context import WorkerContext
    from ferryman.tasks import Task
    from ferryman.worker.children import ChildPool
    from ferryman.worker.claims import Claim
    from ferryman.worker.threads import Threads

logger = logging.getLogger("ferryman.worker")

INTERRUPTED = "Job recovered after worker interruption"
"""The error that the Rust worker leaves on a job that it had to interrupt."""


class ChildTaskError(Exception):
    """Stands for an exception of a child process that could not be brought over."""

    def __init__(self, failure: ChildFailure) -> None:
        super().__init__(f"{failure.error_type}: {failure.message}")
        self.failure = failure


class Handlers:
    """Calls handlers: on the loop, in a thread, in a child process."""

    def __init__(self, threads: Threads, children: ChildPool, *, interrupted_delay: float) -> None:
        self._threads = threads
        self._children = children
        self._interrupted_delay = interrupted_delay

    async def handle(self, task: Task[..., Any], claim: Claim, context: WorkerContext) -> Outcome:
        """Run the handler to its end, whatever it does. Only cancelling the caller ends it early."""
        started = time.monotonic()
        try:
            result = await self._call(task, context)
        except BaseException as error:  # noqa: BLE001 - nothing that a handler raises may hurt the worker
            return self._after_error(task, claim, error)
        sync_points.reach("handler_done")
        if _was_cancelled():
            # A handler that swallows its cancellation and returns has not said that it finished.
            return Interrupted(INTERRUPTED, self._interrupted_delay)
        if not task.running.is_batch:
            return Completed(time.monotonic() - started)
        return self._after_batch(task, claim, result, time.monotonic() - started)

    async def _call(self, task: Task[..., Any], context: WorkerContext) -> Any:
        if task.running.run_in == "process":
            return await self._call_in_child(task, context)
        arguments = task.decode(context.job.payload_json, context)
        call = functools.partial(task.function, *arguments.args, **arguments.kwargs)
        timeout = task.running.timeout
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            if task.running.run_in == "loop":
                return await call()
            return await self._call_in_thread(call)

    async def _call_in_thread(self, call: functools.partial[Any]) -> Any:
        result = await self._threads.run(call)
        # A plain function may hand out a coroutine, as a wrapper around an async one does.
        return await result if inspect.isawaitable(result) else result

    async def _call_in_child(self, task: Task[..., Any], context: WorkerContext) -> Any:
        order = ChildOrder.of(task, context.job, context.worker_id)
        match await self._children.run(order, task.running.timeout):
            case ChildSuccess(value=value):
                return value
            case failure:
                raise failure.exception or ChildTaskError(failure)

    def _after_batch(self, task: Task[..., Any], claim: Claim, result: Any, seconds: float) -> Outcome:
        if isinstance(result, BatchResult) and isinstance(result.error, BaseException):
            return self._after_error(task, claim, result.error)
        outcome = batch_outcome(claim.payload_json, result, seconds)
        if isinstance(outcome, Failed):
            return replace(outcome, delay=_delay(task, claim, RuntimeError(outcome.error)))
        return outcome

    def _after_error(self, task: Task[..., Any], claim: Claim, error: BaseException) -> Outcome:
        match error:
            case Snooze():
                return Snoozed(error.delay.total_seconds())
            case Fail():
                return Failed(describe(error), is_final=True)
            case Retry():
                return Failed(describe(error), delay=max(0.0, error.after.total_seconds()))
            case _ if isinstance(error, PoolClosedError) or _was_cancelled():
                # Whatever else a handler makes of its cancellation, that is why it ended.
                return Interrupted(INTERRUPTED, self._interrupted_delay)
            case TimeoutError() if task.running.timeout is not None and not str(error):
                seconds = task.running.timeout.total_seconds()
                return Failed(
                    f"TimeoutError: the attempt took longer than {seconds:g} s", delay=_delay(task, claim, error)
                )
            case _:
                return Failed(_told(error), delay=_delay(task, claim, error))


def _was_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _delay(task: Task[..., Any], claim: Claim, error: BaseException) -> float | None:
    try:
        delay = task.running.retry.delay(claim.attempts, error)
    except Exception:
        logger.exception("the retry policy of %r failed; the usual delay is used", task.identifier)
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
