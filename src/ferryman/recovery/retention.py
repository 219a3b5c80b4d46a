"""Forgetting what recovery has written down, in small bites and by one worker at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.steps import Commit, Rollback, Transaction
from ferryman.queries import recovering
from ferryman.recovery.results import Pruned

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.steps import Call, Steps
    from ferryman.recovery.settings import RecoverySettings

BATCH = 500
MOST_BATCHES = 200
"""For each kind of record, so that a backlog of one cannot hold up the others, nor a worker for ever."""


def prune(schema_name: str, settings: RecoverySettings, *, batch: int = BATCH) -> Steps[Pruned]:
    """Delete what is older than its retention, and start marks of claims that are over. None keeps things for ever.

    Deletes nothing while somebody else does. Harmless to repeat.
    """
    workers, crashes = settings.worker_retention, settings.crash_retention
    deleted_workers = deleted_crashes = 0
    if workers is not None:
        age = workers.total_seconds()
        deleted_workers = yield from _delete(schema_name, lambda: recovering.delete_old_lost_workers(age, batch), batch)
    if crashes is not None:
        # A crash that is forgotten while it counts would let a job that kills its workers do so for ever.
        seconds = max(crashes, settings.crash_window).total_seconds()
        deleted_crashes = yield from _delete(schema_name, lambda: recovering.delete_old_crashes(seconds, batch), batch)
    deleted_marks = yield from _delete(schema_name, lambda: recovering.delete_dead_marks(batch), batch)
    return Pruned(lost_workers=deleted_workers, crashes=deleted_crashes, start_marks=deleted_marks)


def _delete(schema_name: str, delete: Callable[[], Call], batch: int) -> Steps[int]:
    deleted = 0
    for _ in range(MOST_BATCHES):
        yield Transaction()
        [(is_alone,)] = yield recovering.take_retention_lock(schema_name)
        if not is_alone:
            yield Rollback()
            break
        rows = yield delete()
        yield Commit()
        deleted += len(rows)
        if len(rows) < batch:
            break
    return deleted
