"""One attempt at a job: hooks before, the handler, hooks after, an outcome."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.context import WorkerContext
from ferryman.hooks import AfterJobRun, BeforeJobRun, Fail, JobFetch, JobStart, Skip
from ferryman.worker.outcomes import Completed, Failed, Interrupted, Outcome, storable_error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ferryman.client import Client
    from ferryman.hooks import HookRegistry
    from ferryman.jobs import Job
    from ferryman.tasks import Task
    from ferryman.worker.claims import Claim
    from ferryman.worker.handling import Handlers


class Attempts:
    """Makes attempts. Never raises: whatever happens is an outcome."""

    def __init__(
        self,
        handlers: Handlers,
        *,
        hooks: HookRegistry,
        client: Client,
        worker_id: str,
        extensions: Mapping[Any, Any],
        shutting_down: asyncio.Event,
    ) -> None:
        self._handlers = handlers
        self._hooks = hooks
        self._client = client
        self._worker_id = worker_id
        self._extensions = extensions
        self._shutting_down = shutting_down

    async def make(self, task: Task[..., Any], claim: Claim) -> Outcome:
        """Run the job once."""
        job = claim.job(task.identifier, self._worker_id)
        if self._hooks.wants(JobFetch):
            await self._hooks.emit(JobFetch(job=job, worker_id=self._worker_id))
        decided = await self._decided_before(job)
        if decided is not None:
            return decided
        if self._hooks.wants(JobStart):
            await self._hooks.emit(JobStart(job=job, worker_id=self._worker_id))
        started = time.monotonic()
        outcome = await self._handlers.handle(task, claim, self._context(job))
        return await self._decided_after(job, outcome, time.monotonic() - started)

    def _context(self, job: Job) -> WorkerContext:
        return WorkerContext(
            job=job,
            worker_id=self._worker_id,
            client=self._client,
            extensions=self._extensions,
            shutting_down=self._shutting_down,
        )

    async def _decided_before(self, job: Job) -> Outcome | None:
        if not self._hooks.wants(BeforeJobRun):
            return None
        match await self._hooks.intercept(BeforeJobRun(job=job, worker_id=self._worker_id, payload=job.payload)):
            case Skip():
                return Completed(0.0)
            case Fail(message=message):
                return Failed(storable_error(message))
            case _:
                return None

    async def _decided_after(self, job: Job, outcome: Outcome, seconds: float) -> Outcome:
        # An interrupted attempt has neither returned nor raised; hooks could only make a lie of it.
        if not self._hooks.wants(AfterJobRun) or isinstance(outcome, Interrupted):
            return outcome
        error = outcome.error if isinstance(outcome, Failed) else None
        event = AfterJobRun(job=job, worker_id=self._worker_id, error=error, duration=timedelta(seconds=seconds))
        match await self._hooks.intercept(event):
            case Skip():
                return Completed(seconds)
            case Fail(message=message):
                # A batch that failed in part keeps what is left of it.
                left = outcome.payload_json if isinstance(outcome, Failed) else None
                return Failed(storable_error(message), payload_json=left)
            case _:
                return outcome
