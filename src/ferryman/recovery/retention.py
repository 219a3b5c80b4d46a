"""Deletes old records in small batches, by one worker at a time: each kind after its own retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.steps import Commit, Rollback, Transaction
from ferryman.queries.advisory_locks import RETENTION_LOCK_CLASS
from ferryman.queries.sweep import (
    delete_dead_marks,
    delete_old_crashes,
    delete_old_failed_jobs,
    delete_old_lost_workers,
    delete_old_worker_states,
    take_recovery_lock,
)
from ferryman.recovery.sweep_results import Pruned

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ferryman.database.steps import Call, Steps
    from ferryman.recovery.config import RecoverySettings

BATCH = 500
MOST_BATCHES = 200
"""For each kind of record: a backlog of one kind must not hold up the others, or the worker."""


def prune(schema_name: str, settings: RecoverySettings, *, batch: int = BATCH) -> Steps[Pruned]:
    """Delete records that are older than their retention, and start marks of claims that are over.

    A retention of None keeps records for ever. Deletes nothing while another session does. Harmless to repeat.
    """

    def delete_old(retention: timedelta | None, delete: Callable[[float, int], Call]) -> Steps[int]:
        """Delete records of one kind; `delete` takes the age in seconds and the largest id of the last batch."""
        if retention is None:
            return 0
        age = retention.total_seconds()
        return (yield from _delete(schema_name, lambda after: delete(age, after), batch))

    lost_workers = yield from delete_old(
        settings.heartbeat_retention, lambda age, _: delete_old_lost_workers(age, batch)
    )
    worker_states = yield from delete_old(
        settings.worker_state_retention, lambda age, _: delete_old_worker_states(age, batch)
    )
    crashes = yield from delete_old(
        # If a crash were deleted while it counts, a job could kill workers for ever.
        settings.crash_retention and max(settings.crash_retention, settings.crash_window),
        lambda age, _: delete_old_crashes(age, batch),
    )
    failed_jobs = yield from delete_old(
        settings.terminal_record_retention,
        lambda age, after: delete_old_failed_jobs(age, after=after, batch=batch),
    )
    start_marks = yield from _delete(schema_name, lambda _: delete_dead_marks(batch), batch)
    return Pruned(
        lost_workers=lost_workers,
        worker_states=worker_states,
        crashes=crashes,
        failed_jobs=failed_jobs,
        start_marks=start_marks,
    )


def _delete(schema_name: str, delete: Callable[[int], Call], batch: int) -> Steps[int]:
    deleted = after = 0
    for _ in range(MOST_BATCHES):
        yield Transaction()
        [(is_alone,)] = yield take_recovery_lock(RETENTION_LOCK_CLASS, schema_name)
        if not is_alone:
            yield Rollback()
            break
        rows = yield delete(after)
        yield Commit()
        deleted += len(rows)
        if len(rows) < batch:
            break
        after = max(row[0] for row in rows)
    return deleted
