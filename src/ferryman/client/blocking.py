"""`SyncClient`: adds, changes and inspects jobs from blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from ferryman.client import adding, managing, reading, schema_operations, sweeps, upkeep
from ferryman.client.base import BaseClient
from ferryman.client.operations import blocking
from ferryman.database.blocking_sessions import perform_blocking
from ferryman.database.pools import open_sync_pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ferryman.client.schedules import SyncSchedules
    from ferryman.database.pools import SyncPool
    from ferryman.database.steps import Steps

R = TypeVar("R")


class SyncClient(BaseClient):
    """`Client` for code without an event loop: the same methods, blocking.

        with SyncClient("postgresql://…") as client:
            client.add_raw_job("send_email", {"to": "a@b.c"})

    `using=` takes blocking connections: psycopg, SQLAlchemy connections and sessions, Django connections or aliases.
    """

    _is_blocking = True
    _pool: SyncPool | None = None

    add_job = blocking(adding.add_job)
    add_raw_job = blocking(adding.add_raw_job)
    add_jobs = blocking(adding.add_jobs)
    add_raw_jobs = blocking(adding.add_raw_jobs)
    add_batch_job = blocking(adding.add_batch_job)
    remove_job = blocking(managing.remove_job)
    complete_jobs = blocking(managing.complete_jobs)
    permanently_fail_jobs = blocking(managing.permanently_fail_jobs)
    reschedule_jobs = blocking(managing.reschedule_jobs)
    retry_jobs = blocking(managing.retry_jobs)
    force_unlock_workers = blocking(managing.force_unlock_workers)
    get_job = blocking(reading.get_job)
    get_progress = blocking(reading.get_progress)
    list_jobs = blocking(reading.list_jobs)
    counts = blocking(reading.counts)
    cleanup = blocking(upkeep.cleanup)
    sweep_stale_workers = blocking(sweeps.sweep_stale_workers)
    sweep_stale_workers_with_config = blocking(sweeps.sweep_stale_workers_with_config)
    list_active_workers = blocking(sweeps.list_active_workers)
    list_lost_workers = blocking(sweeps.list_lost_workers)
    list_worker_states = blocking(sweeps.list_worker_states)
    list_crashes = blocking(sweeps.list_crashes)
    prune_recovery_records = blocking(sweeps.prune_recovery_records)
    check_health = blocking(upkeep.check_health)
    hidden_tables = blocking(upkeep.hidden_tables)
    repair_health = blocking(upkeep.repair_health)
    tune = blocking(upkeep.tune)
    untune = blocking(upkeep.untune)
    migrate = blocking(schema_operations.migrate)
    schema_status = blocking(schema_operations.schema_status)
    ping = blocking(schema_operations.ping)
    upgrade_schema = blocking(schema_operations.upgrade_schema)
    uninstall_extensions = blocking(schema_operations.uninstall_extensions)
    give_way = blocking(schema_operations.give_way)

    @property
    def schedules(self) -> SyncSchedules:
        """The schedules in the database: add, change, pause and remove them while workers run."""
        from ferryman.client.schedules import SyncSchedules  # noqa: PLC0415 - brings all of cron

        return SyncSchedules(self)

    def open(self) -> Self:
        """Connect; `with` does it for you."""
        if self._pool is None:
            address, self._server = self._find_address()
            self._pool = open_sync_pool(address, size=self._max_connections)
        return self

    def close(self) -> None:
        """Close all connections, and release the private PostgreSQL if there is one."""
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
