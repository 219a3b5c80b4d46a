"""One attempt at a job: hooks before, the handler, hooks after, an outcome."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.context import WorkerContext
from ferryman.hooks import AfterJobRun, BeforeJobRun, Fail, JobFetch, JobStart, Skip
from ferryman.leases import Lease
from ferryman.worker.outcomes import Completed, CompletedByHandler, Ending, Failed, Interrupted, Outcome, storable_error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from ferryman.client import Client
    from ferryman.hooks import HookRegistry
    from ferryman.jobs import Job
    from ferryman.tasks import Task
    from ferryman.worker.claims import Claim
    from ferryman.worker.handling import Handlers
    from ferryman.worker.progress import Progress

_NOT_COMMITTED = Failed("the task called complete_in, and returned before that transaction was committed")


class Attempts:
    """Makes attempts. Never raises: whatever happens is an outcome."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        hooks: HookRegistry,
        client: Client,
        extensions: Mapping[Any, Any],
        shutting_down: asyncio.Event,
        progress: Progress,
    ) -> None:
        self._handlers = handlers
        self._hooks = hooks
        self._client = client
        self._extensions = extensions
        self._shutting_down = shutting_down
        self._progress = progress
        self._leases: dict[Claim, Lease] = {}

    def make(self, task: Task[..., Any], claim: Claim, cancelling: Callable[[], int]) -> Coroutine[Any, Any, Outcome]:
        """Run the job once, when this is awaited.

        cancelling: of the asyncio task that does so
        """
        if task.takes_context or task.running.run_in == "process":
            return self._make_with_context(task, claim, cancelling)
        return self._make(task, claim, None, cancelling)

    def lose(self, claim: Claim) -> None:
        """The job is no longer ours: its handler may ask, and may no longer complete it."""
        lease = self._leases.get(claim)
        if lease is not None:
            lease.is_lost = True

    async def _make_with_context(self, task: Task[..., Any], claim: Claim, cancelling: Callable[[], int]) -> Outcome:
        """The same for a handler that may ask for more than its payload."""
        lease = self._leases[claim] = Lease(self._client.schema, claim.worker_id, claim.keys)
        lease.learn_keys = lambda: claim.keys
        context = WorkerContext(
            job=claim.job(task.identifier),
            worker_id=claim.worker_id,
            client=self._client,
            extensions=self._extensions,
            shutting_down=self._shutting_down,
            lease=lease,
            report=self._progress.reporter(claim),
        )
        started = time.monotonic()
        try:
            ending = await self._make(task, claim, context, cancelling)
        finally:
            del self._leases[claim]
            self._progress.ended(claim)
        if not lease.is_used:
            return ending
        otherwise = _NOT_COMMITTED if isinstance(ending, Completed) else ending
        return CompletedByHandler(time.monotonic() - started, otherwise)

    def _make(
        self, task: Task[..., Any], claim: Claim, context: WorkerContext | None, cancelling: Callable[[], int]
    ) -> Coroutine[Any, Any, Ending]:
        # Not a coroutine itself: each one around a handler would be felt.
        if self._hooks.wants_any(JobFetch, BeforeJobRun, JobStart, AfterJobRun):
            return self._make_with_hooks(task, claim, context, cancelling)
        return self._handlers.handle(task, claim, context, cancelling)

    async def _make_with_hooks(
        self, task: Task[..., Any], claim: Claim, context: WorkerContext | None, cancelling: Callable[[], int]
    ) -> Ending:
        job = claim.job(task.identifier)
        await self._hooks.emit(JobFetch(job=job, worker_id=claim.worker_id))
        decided = await self._decided_before(job, claim.worker_id)
        if decided is not None:
            return decided
        await self._hooks.emit(JobStart(job=job, worker_id=claim.worker_id))
        started = time.monotonic()
        ending = await self._handlers.handle(task, claim, context, cancelling)
        return await self._decided_after(job, claim.worker_id, ending, time.monotonic() - started)

    async def _decided_before(self, job: Job, worker_id: str) -> Ending | None:
        if not self._hooks.wants(BeforeJobRun):
            return None
        match await self._hooks.intercept(BeforeJobRun(job=job, worker_id=worker_id, payload=job.payload)):
            case Skip():
                return Completed(0.0)
            case Fail(message=message):
                return Failed(storable_error(message))
            case _:
                return None

    async def _decided_after(self, job: Job, worker_id: str, ending: Ending, seconds: float) -> Ending:
        # An interrupted attempt has neither returned nor raised; hooks could only make a lie of it.
        if not self._hooks.wants(AfterJobRun) or isinstance(ending, Interrupted):
            return ending
        error = ending.error if isinstance(ending, Failed) else None
        event = AfterJobRun(job=job, worker_id=worker_id, error=error, duration=timedelta(seconds=seconds))
        match await self._hooks.intercept(event):
            case Skip():
                return Completed(seconds)
            case Fail(message=message):
                # A batch that failed in part keeps what is left of it.
                left = ending.payload_json if isinstance(ending, Failed) else None
                return Failed(storable_error(message), payload_json=left)
            case _:
                return ending
