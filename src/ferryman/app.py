"""`App`: the tasks of an application, and the address of its database."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ferryman.client import Client, SyncClient
from ferryman.client.shared_clients import SharedClients
from ferryman.cron.crontab_registry import CrontabRegistry
from ferryman.lifespans import Lifespans
from ferryman.settings import Settings
from ferryman.tasks import TaskDecorator, TaskRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from ferryman.cron import CronOptions, Crontab, CrontabTimer
    from ferryman.cron.crontab_registry import D
    from ferryman.hooks import HookRegistry
    from ferryman.lifespans import L
    from ferryman.tasks import Task
    from ferryman.worker import WorkerOptions


class App:
    """The tasks of an application, and the address of its database.

    Settings that you leave out are read from the environment and from pyproject.toml when the database is first needed,
    so an application can be imported anywhere.

    Each default below is used if neither a variable nor `[tool.ferryman]` in pyproject.toml has the setting.

    database_url: a PostgreSQL URL or libpq connection string; variable DATABASE_URL (default: libpq's PG* variables)
    schema: the schema that holds the queue; variable FERRYMAN_SCHEMA or GRAPHILE_WORKER_SCHEMA (default:
        graphile_worker)
    max_payload_bytes: the largest payload that may be added; variable FERRYMAN_MAX_PAYLOAD_BYTES (default: 1 MiB)
    tracing: False hides its jobs from OpenTelemetry, which sees them if the program has loaded it; variable
        FERRYMAN_TRACING (default: True)
    worker: options of its workers: hooks, extensions, a local queue, …; keywords of `Worker` and the command line of
        `ferryman worker` override them
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        schema: str | None = None,
        max_payload_bytes: int | None = None,
        tracing: bool | None = None,
        worker: WorkerOptions | None = None,
    ) -> None:
        given = {
            "database_url": database_url,
            "schema": schema,
            "max_payload_bytes": max_payload_bytes,
            "tracing": tracing,
        }
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        Settings(**self._given)
        self.registry = TaskRegistry()
        self.worker_options = worker
        self.lifespans = Lifespans()
        self._crontabs = CrontabRegistry()
        self.clients = SharedClients(lambda: self.settings)

    def __repr__(self) -> str:
        return f"<App: {', '.join(self.registry) or 'no tasks'}>"

    @cached_property
    def settings(self) -> Settings:
        """The settings, read from arguments, environment and pyproject.toml when they are first needed."""
        return Settings.load(given=self._given)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks by identifier; read-only."""
        return MappingProxyType(dict(self.registry))

    @property
    def task(self) -> TaskDecorator:
        """Makes a function or a class a task: `@app.task`, or `@app.task(identifier=…, max_attempts=…)`."""
        return TaskDecorator(self._add_task)

    def _add_task(self, task: Task[..., Any]) -> None:
        self.registry.add(task)
        task.adder = self.clients

    def lifespan(self, function: L) -> L:
        """Register a context manager that a worker opens before its first job and closes after its last.

            @app.lifespan
            async def http() -> AsyncIterator[dict[str, object]]:
                async with httpx.AsyncClient() as client:
                    yield {"http": client}  # ctx.extensions["http"]

        Several are opened in order of registration, and closed in reverse.
        """
        self.lifespans.add(function)
        return function

    @property
    def crontabs(self) -> list[Crontab]:
        """The schedules of the application; `CrontabError` if the payload of one does not fit its task."""
        return self._crontabs.finished()

    def add_crontabs(self, *crontabs: Crontab) -> None:
        """Add schedules that `Cron` built or `parse_crontab` read."""
        self._crontabs.add(crontabs)

    def cron(self, pattern: str | CrontabTimer, **options: Unpack[CronOptions]) -> Callable[[D], D]:
        """Run a task on a schedule: put `@app.cron("0 8 * * *")` above its `@app.task`.

        The options are those of `Cron`: id, fill, payload, time_zone, …; a second schedule of a task needs an id.
        """
        return self._crontabs.decorator(self.registry, pattern, **options)

    def include(self, other: App) -> None:
        """Include the tasks, schedules and lifespans of another `App`, such as a library's. Settings are not included.

        From then on, `enqueue` of its tasks adds jobs to the database of this application.
        """
        self.registry.include(other.registry)
        other.clients.included_by(self.clients)
        self._crontabs.include(other._crontabs)
        for lifespan in other.lifespans:
            self.lifespans.add(lifespan)

    def close(self) -> None:
        """Close the connections that `task.enqueue` and `task.enqueue_sync` have opened. Call it from anywhere.

        The end of the process closes them too, and `asyncio.run` closes those of its event loop. The next `enqueue`
        connects again.
        """
        self.clients.close()

    def client(
        self, *, use_local_time: bool = False, max_connections: int = 10, hooks: HookRegistry | None = None
    ) -> Client:
        """Make a client with these tasks for async code; see `Client` for the options."""
        return Client(
            settings=self.settings,
            tasks=self.registry,
            use_local_time=use_local_time,
            max_connections=max_connections,
            hooks=hooks,
        )

    def sync_client(
        self, *, use_local_time: bool = False, max_connections: int = 10, hooks: HookRegistry | None = None
    ) -> SyncClient:
        """Make a client with these tasks for blocking code; see `SyncClient` for the options."""
        return SyncClient(
            settings=self.settings,
            tasks=self.registry,
            use_local_time=use_local_time,
            max_connections=max_connections,
            hooks=hooks,
        )
