"""One attempt at a job: hooks before, the handler, hooks after, an outcome."""

from __future__ import annotations

import inspect
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from ferryman.context import WorkerContext
from ferryman.hooks import AfterJobRun, BeforeJobRun, JobFetch, JobStart, Reject, Skip
from ferryman.leases import Lease
from ferryman.worker.settling.outcomes import (
    Completed,
    CompletedByHandler,
    Ending,
    Failed,
    Interrupted,
    Outcome,
    Unstarted,
    storable_error,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping

    from ferryman.client import Client, SyncClient
    from ferryman.hooks import HookRegistry
    from ferryman.jobs import Job
    from ferryman.tasks import Task
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.task_numbers import TaskNumbers
    from ferryman.worker.duties.recycling import Recycling
    from ferryman.worker.running.handlers import HandlerCall, Handlers
    from ferryman.worker.running.progress import ProgressWriter
    from ferryman.worker.running.traced_attempts import TracedAttempts
    from ferryman.worker.start_guard import StartGuard

    Cancelling = Callable[[], int]
    """How often the asyncio task that makes an attempt was cancelled."""
    Attempt = Callable[[Claim, Cancelling], Awaitable[Outcome]]
    """Runs a job once, when what it returns is awaited. Never raises: an error is an outcome too."""
    _Make = Callable[[Task[..., Any], HandlerCall, Claim, WorkerContext | None, Cancelling], Awaitable[Ending]]

_EVENTS = (JobFetch, BeforeJobRun, JobStart, AfterJobRun)
"""The events of an attempt."""
_NOT_COMMITTED = Failed("the task called complete_in, and returned before that transaction was committed")


class Attempts:
    """Runs attempts at jobs. A task's needs are found once, so no job pays for hooks or a context that it does not use.

    tasks: finds the identifier that a job carries
    guard: says whether a job may be started; asked again after hooks, which may take their time
    recycling: counts the attempts of a worker with `max_jobs` or `max_memory`; None for others
    traced: lets a tracing library watch the attempts; None without one
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        hooks: HookRegistry,
        client: Client,
        blocking_client: SyncClient,
        extensions: Mapping[Any, Any],
        shutting_down: asyncio.Event,
        progress: ProgressWriter,
        tasks: TaskNumbers,
        guard: StartGuard,
        recycling: Recycling | None = None,
        traced: TracedAttempts | None = None,
    ) -> None:
        self._handlers = handlers
        self._hooks = hooks
        self._client = client
        self._blocking_client = blocking_client
        self._extensions = extensions
        self._shutting_down = shutting_down
        self._progress = progress
        self._identifier_of = tasks.identifier_of
        self._may_start = guard.may_start
        self._recycling = recycling
        self._traced = traced
        self._leases: dict[Claim, Lease] = {}
        self._attempts: dict[Task[..., Any], Attempt] = {}
        self._version = hooks.version

    def of(self, task: Task[..., Any]) -> Attempt:
        """The function that makes one attempt at a job of this task. It is made anew when hooks are registered."""
        if self._version != self._hooks.version:
            self._version = self._hooks.version
            self._attempts.clear()
        attempt = self._attempts.get(task)
        if attempt is None:
            attempt = self._find(task)
            if self._traced is not None:
                attempt = self._traced.of(task, attempt)
            if self._recycling is not None:
                attempt = self._recycling.counted(attempt)
            self._attempts[task] = attempt
        return attempt

    def lose(self, claim: Claim) -> None:
        """Set `ctx.lease_lost` of a lost job, so that its handler can no longer complete it."""
        lease = self._leases.get(claim)
        if lease is not None:
            lease.is_lost = True

    def _find(self, task: Task[..., Any]) -> Attempt:
        # Plain functions around coroutines: each coroutine around a handler costs time.
        call = self._handlers.caller(task)
        make = self._make_with_hooks if self._hooks.wants_any(*_EVENTS) else self._handlers.handle
        if task.takes_context or task.running.run_in == "process":
            client = cast("Client", self._blocking_client) if _is_blocking(task) else self._client
            return lambda claim, cancelling: self._make_with_context(make, task, call, claim, cancelling, client=client)
        return lambda claim, cancelling: make(task, call, claim, None, cancelling)

    async def _make_with_context(
        self,
        make: _Make,
        task: Task[..., Any],
        call: HandlerCall,
        claim: Claim,
        cancelling: Cancelling,
        *,
        client: Client,
    ) -> Outcome:
        """Make an attempt whose handler may ask for more than its payload."""
        job = claim.job(self._identifier_of(claim))  # before anything is noted: a row that cannot be decoded raises
        lease = self._leases[claim] = Lease(self._client.schema, claim.worker_id, claim.keys)
        lease.learn_keys = lambda: claim.keys
        context = WorkerContext(
            job=job,
            worker_id=claim.worker_id,
            client=client,
            extensions=self._extensions,
            shutting_down=self._shutting_down,
            lease=lease,
            report=self._progress.reporter(claim),
        )
        started = time.monotonic()
        try:
            ending = await make(task, call, claim, context, cancelling)
        finally:
            del self._leases[claim]
            self._progress.ended(claim)
        if not lease.is_used:
            return ending
        otherwise = _NOT_COMMITTED if isinstance(ending, Completed) else ending
        return CompletedByHandler(time.monotonic() - started, otherwise)

    async def _make_with_hooks(
        self,
        task: Task[..., Any],
        call: HandlerCall,
        claim: Claim,
        context: WorkerContext | None,
        cancelling: Cancelling,
    ) -> Ending:
        job = claim.job(self._identifier_of(claim))
        await self._hooks.emit(JobFetch(job=job, worker_id=claim.worker_id))
        decided = await self._decided_before(job, claim.worker_id)
        if decided is not None:
            return decided
        if not self._may_start(claim):
            return Unstarted()
        await self._hooks.emit(JobStart(job=job, worker_id=claim.worker_id))
        if not self._may_start(claim):
            return Unstarted()
        started = time.monotonic()
        ending = await self._handlers.handle(task, call, claim, context, cancelling)
        return await self._decided_after(job, claim.worker_id, ending, time.monotonic() - started)

    async def _decided_before(self, job: Job, worker_id: str) -> Ending | None:
        if not self._hooks.wants(BeforeJobRun):
            return None
        match await self._hooks.intercept(BeforeJobRun(job=job, worker_id=worker_id, payload=job.payload)):
            case Skip():
                return Completed(0.0)
            case Reject(message=message):
                return Failed(storable_error(message))
            case _:
                return None

    async def _decided_after(self, job: Job, worker_id: str, ending: Ending, seconds: float) -> Ending:
        # A job that was interrupted, or never began, has not returned or raised: hooks must not change its outcome.
        if not self._hooks.wants(AfterJobRun) or isinstance(ending, (Interrupted, Unstarted)):
            return ending
        error = ending.error if isinstance(ending, Failed) else None
        event = AfterJobRun(job=job, worker_id=worker_id, error=error, duration=timedelta(seconds=seconds))
        match await self._hooks.intercept(event):
            case Skip():
                return Completed(seconds)
            case Reject(message=message):
                # A batch that failed in part keeps what is left of it.
                left, crash = (ending.payload_json, ending.crash) if isinstance(ending, Failed) else (None, None)
                return Failed(storable_error(message), payload_json=left, crash=crash)
            case _:
                return ending


def _is_blocking(task: Task[..., Any]) -> bool:
    """True if the handler runs in a thread to its end. A plain wrapper of an async function ends on the event loop."""
    return task.running.run_in == "thread" and not inspect.iscoroutinefunction(inspect.unwrap(task.function))
