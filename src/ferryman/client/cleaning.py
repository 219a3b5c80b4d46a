"""Clearing away what nobody needs any more, while producers and workers go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ferryman.database.failures import sqlstate_of
from ferryman.database.steps import Call, Rollback, Script, Transaction, Wait, repeated
from ferryman.errors import DatabaseError, InvalidJobError, SchemaMissingError
from ferryman.jobs import check_identifier
from ferryman.queries.jobs import (
    LOCK_QUEUES,
    LOCK_TASKS,
    delete_failed_jobs,
    delete_unknown_tasks,
    delete_unused_queues,
    delete_unused_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.client.core import Core
    from ferryman.database.steps import Row, Steps

LOCK_ATTEMPTS = 40
SECONDS_BETWEEN_ATTEMPTS = 0.25
LOCK_NOT_AVAILABLE = "55P03"
DEADLOCK_DETECTED = "40P01"


class CleanupTask(Enum):
    """One kind of clearing away."""

    GC_TASK_IDENTIFIERS = "GC_TASK_IDENTIFIERS"
    """Delete tasks that no job refers to, unless they are named as kept.

    Those of this application, of registered workers and of stored schedules stay.
    A Node or Rust worker that is running keeps the number of a deleted task, and does not see jobs that are added
    for it later, until it restarts: name its tasks as kept. A busy Ferryman worker that is not registered may take a
    minute to see them.
    """
    GC_JOB_QUEUES = "GC_JOB_QUEUES"
    """Delete queues that are neither locked nor referred to by any job."""
    DELETE_PERMAFAILED_JOBS = "DELETE_PERMAFAILED_JOBS"
    """Delete jobs that have failed for good, long enough ago if an age is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a clean-up deleted."""

    task_identifiers: tuple[str, ...] = ()
    queue_names: tuple[str, ...] = ()
    failed_jobs: int = 0


def cleanup(
    core: Core,
    tasks: Iterable[CleanupTask | str] = (CleanupTask.GC_JOB_QUEUES,),
    *,
    keep_task_identifiers: Iterable[str] = (),
    older_than: timedelta | None = None,
) -> Steps[Cleaned]:
    """Clear away failed jobs, unused queues or unused tasks. By default only unused queues.

    older_than: how long ago jobs must have failed to be deleted, whatever their task; by default any time will do
    """
    chosen = _checked(tasks)
    age = _age(older_than, chosen)
    kept = {*core.tasks.names, *keep_task_identifiers}
    for identifier in kept:
        check_identifier(identifier)
    cleaned = yield from repeated(partial(_clean, chosen, sorted(kept), age))
    return cleaned


def _clean(chosen: set[CleanupTask], kept: Sequence[str], age: float | None) -> Steps[Cleaned]:
    failed_jobs, queues, identifiers = 0, (), ()  # type: int, Sequence[Row], Sequence[Row]
    if CleanupTask.DELETE_PERMAFAILED_JOBS in chosen:
        [(failed_jobs,)] = yield delete_failed_jobs(age)
    if CleanupTask.GC_TASK_IDENTIFIERS in chosen:
        identifiers = yield from _delete_tasks(kept)
    if CleanupTask.GC_JOB_QUEUES in chosen:
        queues = yield from under_lock(LOCK_QUEUES, delete_unused_queues())
    return Cleaned(
        task_identifiers=tuple(row[0] for row in identifiers),
        queue_names=tuple(row[0] for row in queues),
        failed_jobs=failed_jobs,
    )


def _delete_tasks(kept: Sequence[str]) -> Steps[Sequence[Row]]:
    try:
        return (yield from under_lock(LOCK_TASKS, delete_unknown_tasks(kept)))
    except SchemaMissingError:  # without the extensions nobody can register
        yield Rollback()
    return (yield from under_lock(LOCK_TASKS, delete_unused_tasks(kept)))


def under_lock(lock: Script, delete: Call) -> Steps[Sequence[Row]]:
    """Delete while no job can be on its way. Never waits long for the lock, because producers would wait behind us."""
    for _ in range(LOCK_ATTEMPTS):
        yield Transaction()
        try:
            yield lock
            rows = yield delete
        except DatabaseError as error:
            if sqlstate_of(error) not in {LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED}:
                raise
            yield Rollback()
            yield Wait(SECONDS_BETWEEN_ATTEMPTS)
        else:
            return rows
    raise DatabaseError(
        f"the clean-up gave up after {LOCK_ATTEMPTS} attempts because some transaction that adds jobs stays open; what "
        f"was cleaned before stays cleaned. Try again later, or look for long transactions in pg_stat_activity."
    )


def _age(older_than: timedelta | None, chosen: set[CleanupTask]) -> float | None:
    if older_than is None:
        return None
    if not isinstance(older_than, timedelta) or older_than < timedelta():
        raise InvalidJobError(f"older_than must be a timedelta of nothing or more; got {older_than!r}")
    if CleanupTask.DELETE_PERMAFAILED_JOBS not in chosen:
        raise InvalidJobError("older_than is about failed jobs: name DELETE_PERMAFAILED_JOBS too, or leave it out")
    return older_than.total_seconds()


def _checked(tasks: Iterable[CleanupTask | str]) -> set[CleanupTask]:
    given: list[Any] = [tasks] if isinstance(tasks, str) else list(tasks)
    try:
        return {CleanupTask(task) for task in given}
    except ValueError:
        allowed = ", ".join(repr(task.value) for task in CleanupTask)
        listed = ", ".join(repr(getattr(task, "value", task)) for task in given)
        raise InvalidJobError(f"Invalid cleanup tasks; allowed values: {allowed}; you provided: {listed}") from None
