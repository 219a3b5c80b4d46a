"""The tasks of an application, and where its database is."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ferryman.client import Client, SyncClient
from ferryman.settings import Settings
from ferryman.tasks import TaskDecorator, TaskRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.hooks import HookRegistry
    from ferryman.tasks import Task


class App:
    """The tasks of an application, and where its database is.

    What is left out is looked up in the environment and in pyproject.toml when the database is first needed, so an
    application can be imported anywhere.

    database_url: a PostgreSQL URL or libpq connection string (default: DATABASE_URL, then libpq's PG* variables)
    schema: the schema that holds the queue (default: graphile_worker)
    max_payload_bytes: the largest payload that may be added (default: 1 MiB)
    """

    def __init__(
        self, database_url: str | None = None, *, schema: str | None = None, max_payload_bytes: int | None = None
    ) -> None:
        given = {"database_url": database_url, "schema": schema, "max_payload_bytes": max_payload_bytes}
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        Settings(**self._given)
        self.registry = TaskRegistry()

    def __repr__(self) -> str:
        return f"<App: {', '.join(self.registry) or 'no tasks'}>"

    @cached_property
    def settings(self) -> Settings:
        """The settings, gathered when they are first asked for."""
        return Settings.load(given=self._given)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks by identifier; to look at, not to change."""
        return MappingProxyType(dict(self.registry))

    @property
    def task(self) -> TaskDecorator:
        """Makes a task of a function or a class: `@app.task`, or `@app.task(identifier=…, max_attempts=…)`."""
        return TaskDecorator(self.registry.add)

    def include(self, other: App) -> None:
        """Take over the tasks of another `App`, such as one that a library defines. Its settings stay its own."""
        self.registry.include(other.registry)

    def client(
        self, *, use_local_time: bool = False, max_connections: int = 10, hooks: HookRegistry | None = None
    ) -> Client:
        """A client that knows these tasks, for async code; see `Client` for the options."""
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
        """A client that knows these tasks, for blocking code; see `SyncClient` for the options."""
        return SyncClient(
            settings=self.settings,
            tasks=self.registry,
            use_local_time=use_local_time,
            max_connections=max_connections,
            hooks=hooks,
        )
