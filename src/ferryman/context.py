"""`WorkerContext`: the job that a handler runs, its worker and its client."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.client import Client, SyncClient
    from ferryman.jobs import Job
    from ferryman.leases import Lease
    from ferryman.tasks import Task

_logger = logging.getLogger("ferryman.task")


def _ignore(fraction: float, message: str | None) -> None:
    """Ignore progress: the default where no worker runs the job, as in a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The job that is running and the worker that runs it.

    A task receives it in a parameter annotated `WorkerContext`, which is never part of the payload. In a test, make one
    yourself and call the task as a function.

    job: the job as it was claimed
    worker_id: the worker that runs it
    client: adds and changes jobs: a `Client` whose methods are awaited in an async handler, a `SyncClient` in a plain
        `def`, where type checkers know it as `sync_client`
    extensions: the values of the worker's `extensions` option and of lifespans
    shutting_down: set when the worker begins to shut down; the handler may finish early, or ignore it
    lease: the claim of the job, for `complete_in` and `lease_lost`
    report: receives the progress of `set_progress`
    """

    job: Job
    worker_id: str
    client: Client | None = field(default=None, repr=False)
    extensions: Mapping[Any, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    shutting_down: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    lease: Lease | None = field(default=None, repr=False)
    report: Callable[[float, str | None], None] = field(default=_ignore, repr=False)

    @property
    def sync_client(self) -> SyncClient:
        """The client in a plain `def` handler: the same object as `client`, with its type for type checkers."""
        if self.client is None or getattr(self.client, "_is_blocking", True) is False:
            raise TaskError(
                "ctx.sync_client is for plain `def` handlers that a worker runs. In an async one, await the methods of "
                "ctx.client; in a test, give the context a SyncClient as client."
            )
        return cast("SyncClient", self.client)

    @property
    def task(self) -> Task[..., Any]:
        """The definition of the task: its identifier, defaults and retry policy; also of a job that has an alias."""
        return self._queue("task")._core.tasks.find(self.job.task_identifier)  # noqa: SLF001 - of this package

    @property
    def schema(self) -> str:
        """The schema that holds the queue."""
        return self._queue("schema").schema.name

    @property
    def use_local_time(self) -> bool:
        """True if the worker goes by its machine's clock, False if by the database's."""
        return self._queue("use_local_time").use_local_time

    @property
    def payload(self) -> Any:
        """The payload as plain values."""
        return self.job.payload

    @property
    def is_shutting_down(self) -> bool:
        """True once the worker has begun to shut down."""
        return self.shutting_down.is_set()

    @property
    def lease_lost(self) -> bool:
        """True once this worker has lost the job: it was declared dead, and another may run the job.

        The result will be discarded. A handler on the event loop is cancelled; one in a thread should check this.
        """
        return self.lease is not None and self.lease.is_lost

    async def complete_in(self, using: Any) -> None:
        """Complete the job inside your own transaction: both commit, or neither.

        using: an async connection or session of psycopg, asyncpg or SQLAlchemy, with your transaction open

        Commit before the handler returns; if it returns without a commit, the attempt has failed. `LeaseLostError` if
        this worker has lost the job: let it roll back your transaction.
        """
        await self._held().complete_in(using)

    def complete_in_blocking(self, using: Any) -> None:
        """Complete the job as `complete_in` does, in a plain `def`: with a blocking connection or a Django alias."""
        self._held().complete_in_blocking(using)

    def set_progress(self, fraction: float, message: str | None = None) -> None:
        """Report how far the job is, from 0 to 1, for `client.get_progress` and `ferryman jobs show`.

        Cheap: the latest reports of all jobs are written once a second, in one statement.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress is a fraction from 0 to 1; got {fraction!r}")
        self.report(fraction, message)

    def _queue(self, name: str) -> Client:
        if self.client is None:
            raise TaskError(
                f"ctx.{name} needs the client of the queue, and this context has none. In a test, give it one: "
                f"WorkerContext(client=…)."
            )
        return self.client

    def _held(self) -> Lease:
        if self.lease is None:
            raise TaskError(
                "complete_in was called, but no worker is running this task, so there is no job to complete. "
                "In a test, give the context a lease."
            )
        return self.lease

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records have the fields `job_id`, `task`, `attempt` and `worker_id`."""
        fields = {
            "job_id": self.job.id,
            "task": self.job.task_identifier,
            "attempt": self.job.attempts,
            "worker_id": self.worker_id,
        }
        return logging.LoggerAdapter(_logger, fields)


class _NoContext:
    """Stands in for the context when a task is called without a worker: reading an attribute raises a clear error."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TaskError(
            f"ctx.{name} was read, but no worker is running this task: it was called as a plain function. "
            f"Pass a WorkerContext as that argument."
        )

    def __repr__(self) -> str:
        return "CONTEXT"


CONTEXT = cast("WorkerContext", _NoContext())
"""The default of a context parameter that is not the first one: `def send(to: str, ctx: WorkerContext = CONTEXT)`.

It lets type checkers see that `send.job(to=…)` needs no context. The worker always passes the real one.
"""
