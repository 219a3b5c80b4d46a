"""The client for blocking code: the same operations, without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ferryman.client import adding, cleaning, health, managing, reading, schema_operations, sweeps
from ferryman.client.base import BaseClient
from ferryman.database.blocking_sessions import perform_blocking
from ferryman.database.pools import open_sync_pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ferryman.client.core import Core
    from ferryman.client.schedule_access import SyncSchedules
    from ferryman.database.pools import SyncPool
    from ferryman.database.steps import Steps

P = ParamSpec("P")
R = TypeVar("R")


class _Blocking(Generic[P, R]):
    """An operation as a method that blocks."""

    def __init__(self, operation: Callable[Concatenate[Core, P], Steps[R]]) -> None:
        self._operation = operation
        self.__wrapped__ = operation
        self.__doc__ = operation.__doc__

    @overload
    def __get__(self, client: None, owner: type[SyncClient]) -> Self: ...
    @overload
    def __get__(self, client: SyncClient, owner: type[SyncClient]) -> Callable[P, R]: ...
    def __get__(self, client: SyncClient | None, owner: type[SyncClient]) -> Self | Callable[P, R]:
        if client is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return client._perform(lambda: self._operation(client._core, *args, **kwargs))  # noqa: SLF001 - a method in all but name

        return call


class SyncClient(BaseClient):
    """`Client` for code without an event loop: the same methods, blocking.

        with SyncClient("postgresql://…") as client:
            client.add_raw_job("send_email", {"to": "a@b.c"})

    `using=` takes blocking connections: psycopg, SQLAlchemy connections and sessions, Django connections or aliases.
    """

    _is_blocking = True
    _pool: SyncPool | None = None

    add_job = _Blocking(adding.add_job)
    add_raw_job = _Blocking(adding.add_raw_job)
    add_jobs = _Blocking(adding.add_jobs)
    add_raw_jobs = _Blocking(adding.add_raw_jobs)
    add_batch_job = _Blocking(adding.add_batch_job)
    remove_job = _Blocking(managing.remove_job)
    complete_jobs = _Blocking(managing.complete_jobs)
    permanently_fail_jobs = _Blocking(managing.permanently_fail_jobs)
    reschedule_jobs = _Blocking(managing.reschedule_jobs)
    retry_jobs = _Blocking(managing.retry_jobs)
    force_unlock_workers = _Blocking(managing.force_unlock_workers)
    get_job = _Blocking(reading.get_job)
    get_progress = _Blocking(reading.get_progress)
    list_jobs = _Blocking(reading.list_jobs)
    counts = _Blocking(reading.counts)
    cleanup = _Blocking(cleaning.cleanup)
    sweep_stale_workers = _Blocking(sweeps.sweep_stale_workers)
    sweep_stale_workers_with_config = _Blocking(sweeps.sweep_stale_workers_with_config)
    list_active_workers = _Blocking(sweeps.list_active_workers)
    list_lost_workers = _Blocking(sweeps.list_lost_workers)
    list_worker_states = _Blocking(sweeps.list_worker_states)
    list_crashes = _Blocking(sweeps.list_crashes)
    prune_recovery_records = _Blocking(sweeps.prune_recovery_records)
    check_health = _Blocking(health.check_health)
    hidden_tables = _Blocking(health.hidden_tables)
    repair_health = _Blocking(health.repair_health)
    tune = _Blocking(health.tune)
    untune = _Blocking(health.untune)
    migrate = _Blocking(schema_operations.migrate)
    schema_status = _Blocking(schema_operations.schema_status)
    ping = _Blocking(schema_operations.ping)
    upgrade_schema = _Blocking(schema_operations.upgrade_schema)
    uninstall_extensions = _Blocking(schema_operations.uninstall_extensions)
    give_way = _Blocking(schema_operations.give_way)

    @property
    def schedules(self) -> SyncSchedules:
        """Schedules that are kept in the database: add, change, pause and remove them while workers run."""
        from ferryman.client.schedule_access import SyncSchedules  # noqa: PLC0415 - brings all of cron

        return SyncSchedules(self)

    def open(self) -> Self:
        """Connect; `with` does it for you."""
        if self._pool is None:
            address, self._server = self._find_address()
            self._pool = open_sync_pool(address, size=self._max_connections)
        return self

    def close(self) -> None:
        """Close all connections, and let go of the private PostgreSQL if there is one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self._leave_server()

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self._leave_server()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _perform(self, start: Callable[[], Steps[R]]) -> R:
        return perform_blocking(self._own_pool, self._schema, start)

    def _own_pool(self) -> SyncPool:
        if self._pool is None:
            raise self._not_open("with")
        return self._pool
