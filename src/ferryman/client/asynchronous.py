"""The client for async code."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ferryman.client import adding, cleaning, health, managing, reading, schema_operations, sweeps
from ferryman.client.base import BaseClient
from ferryman.database.pools import open_async_pool
from ferryman.database.sessions import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from ferryman.client.core import Core
    from ferryman.client.schedule_access import Schedules
    from ferryman.database.addresses import Address
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Steps
    from ferryman.embedded import EmbeddedPostgres

P = ParamSpec("P")
R = TypeVar("R")


class _Awaited(Generic[P, R]):
    """An operation as a method that is awaited."""

    def __init__(self, operation: Callable[Concatenate[Core, P], Steps[R]]) -> None:
        self._operation = operation
        self.__wrapped__ = operation
        self.__doc__ = operation.__doc__

    @overload
    def __get__(self, client: None, owner: type[Client]) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: type[Client]) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, client: Client | None, owner: type[Client]) -> Self | Callable[P, Coroutine[Any, Any, R]]:
        if client is None:
            return self

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await client._perform(lambda: self._operation(client._core, *args, **kwargs))  # noqa: SLF001 - a method in all but name

        return call


class Client(BaseClient):
    """Adds, changes and inspects jobs.

        async with Client("postgresql://…") as client:
            await client.add_raw_job("send_email", {"to": "a@b.c"})

    Every method that touches jobs takes `using=`: a connection or session of yours (psycopg, asyncpg, SQLAlchemy);
    what it does is then part of your transaction. A client that is only used that way need not be opened.
    """

    address: Address
    """Where the database is, once the client is open."""
    _is_blocking = False
    _pool: AsyncPool | None = None

    add_job = _Awaited(adding.add_job)
    add_raw_job = _Awaited(adding.add_raw_job)
    add_jobs = _Awaited(adding.add_jobs)
    add_raw_jobs = _Awaited(adding.add_raw_jobs)
    add_batch_job = _Awaited(adding.add_batch_job)
    remove_job = _Awaited(managing.remove_job)
    complete_jobs = _Awaited(managing.complete_jobs)
    permanently_fail_jobs = _Awaited(managing.permanently_fail_jobs)
    reschedule_jobs = _Awaited(managing.reschedule_jobs)
    retry_jobs = _Awaited(managing.retry_jobs)
    force_unlock_workers = _Awaited(managing.force_unlock_workers)
    get_job = _Awaited(reading.get_job)
    get_progress = _Awaited(reading.get_progress)
    list_jobs = _Awaited(reading.list_jobs)
    counts = _Awaited(reading.counts)
    cleanup = _Awaited(cleaning.cleanup)
    sweep_stale_workers = _Awaited(sweeps.sweep_stale_workers)
    sweep_stale_workers_with_config = _Awaited(sweeps.sweep_stale_workers_with_config)
    list_active_workers = _Awaited(sweeps.list_active_workers)
    list_lost_workers = _Awaited(sweeps.list_lost_workers)
    list_worker_states = _Awaited(sweeps.list_worker_states)
    list_crashes = _Awaited(sweeps.list_crashes)
    prune_recovery_records = _Awaited(sweeps.prune_recovery_records)
    check_health = _Awaited(health.check_health)
    hidden_tables = _Awaited(health.hidden_tables)
    repair_health = _Awaited(health.repair_health)
    tune = _Awaited(health.tune)
    untune = _Awaited(health.untune)
    migrate = _Awaited(schema_operations.migrate)
    schema_status = _Awaited(schema_operations.schema_status)
    ping = _Awaited(schema_operations.ping)
    upgrade_schema = _Awaited(schema_operations.upgrade_schema)
    uninstall_extensions = _Awaited(schema_operations.uninstall_extensions)
    give_way = _Awaited(schema_operations.give_way)

    @property
    def schedules(self) -> Schedules:
        """Schedules that are kept in the database: add, change, pause and remove them while workers run."""
        from ferryman.client.schedule_access import Schedules  # noqa: PLC0415 - brings all of cron

        return Schedules(self)

    async def open(self) -> Self:
        """Connect; `async with` does it for you."""
        if self._pool is None:
            self.address, self._server = await self._find_address_in_thread()
            self._pool = await open_async_pool(self.address, size=self._max_connections)
        return self

    async def _find_address_in_thread(self) -> tuple[Address, EmbeddedPostgres | None]:
        """Find it in a thread, which goes on when this is cancelled; what it starts then is left again."""
        first = Lock()  # taken by the thread when it is done, or here when this is cancelled: by whichever comes first
        found: list[EmbeddedPostgres] = []

        def find() -> tuple[Address, EmbeddedPostgres | None]:
            address, server = self._find_address()
            if server is not None:
                found.append(server)
                if not first.acquire(blocking=False):
                    server.close()
            return address, server

        try:
            return await asyncio.to_thread(find)
        except asyncio.CancelledError:
            if not first.acquire(blocking=False):
                found[0].close()
            raise

    async def close(self) -> None:
        """Close all connections, and let go of the private PostgreSQL if there is one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        self._leave_server()

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            self._leave_server()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def pool(self) -> AsyncPool:
        """The connections of this client; for the worker that shares them."""
        return self._own_pool()

    async def _perform(self, start: Callable[[], Steps[R]]) -> R:
        return await perform(self._own_pool, self._schema, start)

    def _own_pool(self) -> AsyncPool:
        if self._pool is None:
            raise self._not_open("async with")
        return self._pool
