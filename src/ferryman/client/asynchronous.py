"""`Client`: adds, changes and inspects jobs from async code."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar

from ferryman.client import adding, managing, reading, schema_operations, sweeps, upkeep
from ferryman.client.base import BaseClient
from ferryman.client.operations import awaited
from ferryman.database.pools import open_async_pool
from ferryman.database.sessions import perform

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ferryman.client.schedules import Schedules
    from ferryman.database.addresses import Address
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Steps
    from ferryman.embedded import EmbeddedPostgres

R = TypeVar("R")


class Client(BaseClient):
    """Adds, changes and inspects jobs.

        async with Client("postgresql://…") as client:
            await client.add_raw_job("send_email", {"to": "a@b.c"})

    Methods that touch jobs take `using=`: your connection or session (psycopg, asyncpg, SQLAlchemy). Their work is then
    part of your transaction. A client that is only used that way need not be opened.
    """

    address: Address
    """Where the database is, once the client is open."""
    _is_blocking = False
    _pool: AsyncPool | None = None

    add_job = awaited(adding.add_job)
    add_raw_job = awaited(adding.add_raw_job)
    add_jobs = awaited(adding.add_jobs)
    add_raw_jobs = awaited(adding.add_raw_jobs)
    add_batch_job = awaited(adding.add_batch_job)
    remove_job = awaited(managing.remove_job)
    complete_jobs = awaited(managing.complete_jobs)
    permanently_fail_jobs = awaited(managing.permanently_fail_jobs)
    reschedule_jobs = awaited(managing.reschedule_jobs)
    retry_jobs = awaited(managing.retry_jobs)
    force_unlock_workers = awaited(managing.force_unlock_workers)
    get_job = awaited(reading.get_job)
    get_progress = awaited(reading.get_progress)
    list_jobs = awaited(reading.list_jobs)
    counts = awaited(reading.counts)
    cleanup = awaited(upkeep.cleanup)
    sweep_stale_workers = awaited(sweeps.sweep_stale_workers)
    sweep_stale_workers_with_config = awaited(sweeps.sweep_stale_workers_with_config)
    list_active_workers = awaited(sweeps.list_active_workers)
    list_lost_workers = awaited(sweeps.list_lost_workers)
    list_worker_states = awaited(sweeps.list_worker_states)
    list_crashes = awaited(sweeps.list_crashes)
    prune_recovery_records = awaited(sweeps.prune_recovery_records)
    check_health = awaited(upkeep.check_health)
    hidden_tables = awaited(upkeep.hidden_tables)
    repair_health = awaited(upkeep.repair_health)
    tune = awaited(upkeep.tune)
    untune = awaited(upkeep.untune)
    migrate = awaited(schema_operations.migrate)
    schema_status = awaited(schema_operations.schema_status)
    ping = awaited(schema_operations.ping)
    upgrade_schema = awaited(schema_operations.upgrade_schema)
    uninstall_extensions = awaited(schema_operations.uninstall_extensions)
    give_way = awaited(schema_operations.give_way)

    @property
    def schedules(self) -> Schedules:
        """The schedules in the database: add, change, pause and remove them while workers run."""
        from ferryman.client.schedules import Schedules  # noqa: PLC0415 - brings all of cron

        return Schedules(self)

    async def open(self) -> Self:
        """Connect; `async with` does it for you."""
        if self._pool is None:
            self.address, self._server = await self._find_address_in_thread()
            self._pool = await open_async_pool(self.address, size=self._max_connections)
        return self

    async def _find_address_in_thread(self) -> tuple[Address, EmbeddedPostgres | None]:
        """Find the database's address in a thread. If cancelled, release a server that the thread starts."""
        first = Lock()  # taken by the thread when it is done, or here on cancellation, whichever comes first
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
        """Close all connections, and release the private PostgreSQL if there is one."""
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
        """The connections of this client, which a worker shares."""
        return self._own_pool()

    async def _perform(self, start: Callable[[], Steps[R]]) -> R:
        return await perform(self._own_pool, self._schema, start)

    def _own_pool(self) -> AsyncPool:
        if self._pool is None:
            raise self._not_open("async with")
        return self._pool
