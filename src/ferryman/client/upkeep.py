"""Keeps a queue in order: cleans it up, checks its health, repairs and tunes it, while producers and workers continue.

The checks and their statements are imported when they are asked for: workers and producers never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from ferryman.database.failures import DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, sqlstate_of
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

    from ferryman.client.base import Core
    from ferryman.database.steps import Row, Steps
    from ferryman.health import HealthLimits, HealthReport, Repair, Repaired, Tuned, Tuning

LOCK_ATTEMPTS = 40
SECONDS_BETWEEN_ATTEMPTS = 0.25


class CleanupTask(Enum):
    """A kind of clean-up."""

    GC_TASK_IDENTIFIERS = "GC_TASK_IDENTIFIERS"
    """Delete tasks that no job refers to, except those named as kept.

    Tasks of this application, of registered workers and of schedules in the database are always kept. Name the tasks of
    Node and Rust workers as kept: a running one remembers the number of a deleted task, and does not see later jobs of
    that task until it restarts. A busy Ferryman worker that is not registered may take a minute to see them.
    """
    GC_JOB_QUEUES = "GC_JOB_QUEUES"
    """Delete queues that are neither locked nor referred to by any job."""
    DELETE_PERMAFAILED_JOBS = "DELETE_PERMAFAILED_JOBS"
    """Delete jobs that have failed for good; with `older_than`, only old ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The tasks, queues and failed jobs that a clean-up has deleted."""

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
    """Delete failed jobs, unused queues or unused tasks; by default only unused queues.

    keep_task_identifiers: tasks that are kept although no job refers to them
    older_than: delete only jobs that failed at least this long ago; by default all failed jobs, of any task
    """
    chosen = _checked_tasks(tasks)
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
    except SchemaMissingError:  # without the extensions no worker can register
        yield Rollback()
    return (yield from under_lock(LOCK_TASKS, delete_unused_tasks(kept)))


def under_lock(lock: Script, delete: Call) -> Steps[Sequence[Row]]:
    """Run a delete statement under a table lock, so that no job is added meanwhile.

    Waits only briefly for the lock, and retries: programs that add jobs wait behind it.
    """
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
        f"the clean-up gave up after {LOCK_ATTEMPTS} attempts because a transaction that adds jobs stays open. What "
        f"was deleted before stays deleted. Try again later, or look for long transactions in pg_stat_activity."
    )


def _age(older_than: timedelta | None, chosen: set[CleanupTask]) -> float | None:
    if older_than is None:
        return None
    if not isinstance(older_than, timedelta) or older_than < timedelta():
        raise InvalidJobError(
            f"older_than must be a timedelta, and not negative; got {older_than!r}. Nothing was deleted."
        )
    if CleanupTask.DELETE_PERMAFAILED_JOBS not in chosen:
        raise InvalidJobError(
            "older_than applies to failed jobs only, so nothing was deleted. Add DELETE_PERMAFAILED_JOBS, or leave "
            "older_than out."
        )
    return older_than.total_seconds()


def _checked_tasks(tasks: Iterable[CleanupTask | str]) -> set[CleanupTask]:
    given: list[Any] = [tasks] if isinstance(tasks, str) else list(tasks)
    try:
        return {CleanupTask(task) for task in given}
    except ValueError:
        allowed = ", ".join(repr(task.value) for task in CleanupTask)
        listed = ", ".join(repr(getattr(task, "value", task)) for task in given)
        raise InvalidJobError(
            f"Invalid cleanup tasks; allowed values: {allowed}; you provided: {listed}. Nothing was deleted."
        ) from None


def check_health(core: Core, *, limits: HealthLimits | None = None) -> Steps[HealthReport]:
    """Look for everything that stops or slows down jobs, or soon will. Changes nothing.

    A check that cannot be made is reported as a finding, for example if the role may not read a table.
    """
    from ferryman.health import HealthLimits  # noqa: PLC0415 - see above
    from ferryman.health.checking import examine  # noqa: PLC0415 - see above

    report = yield from examine(core.schema, limits or HealthLimits())
    return report


def hidden_tables(core: Core) -> Steps[tuple[str, ...]]:
    """List the tables whose rows row security hides from this role, so that they look empty."""
    from ferryman.health.schema_checks import CRONTABS, TABLES  # noqa: PLC0415 - see above
    from ferryman.queries import checks  # noqa: PLC0415 - see above

    rows = yield checks.access(core.schema.name, (*TABLES, CRONTABS))
    return tuple(table for table, may_read, _, _, is_hidden in rows if may_read and is_hidden)


def repair_health(core: Core, repairs: Iterable[Repair | str]) -> Steps[tuple[Repaired, ...]]:
    """Make these repairs, as far as they are still needed, while producers and workers continue.

    Each statement checks again what it repairs. The lock of a worker that may be alive is never touched.
    `HealthReport.repairs` lists the repairs that are needed.
    """
    done = []
    for each in _checked_repairs(repairs):
        repaired = yield from repeated(partial(_repaired, core, each))
        done.append(repaired)
    return tuple(done)


def tune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Turn on an option of the tables that is never a default. Safe to repeat; `untune` turns it off.

    Producers and workers continue meanwhile, Node's and Rust's too. `Tuning` lists the options.

    dry_run: True only reports what would be done
    """
    return (yield from _change(core, tuning, is_wanted=True, dry_run=dry_run))


def untune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Turn off an option of the tables, so that nothing of it is left. Safe to repeat.

    dry_run: True only reports what would be done
    """
    return (yield from _change(core, tuning, is_wanted=False, dry_run=dry_run))


def _change(core: Core, tuning: Tuning | str, *, is_wanted: bool, dry_run: bool) -> Steps[Tuned]:
    from ferryman.health import Tuning  # noqa: PLC0415 - see above
    from ferryman.health.tuning import change  # noqa: PLC0415 - see above

    try:
        wanted = Tuning(tuning)
    except ValueError:
        allowed = ", ".join(repr(each.value) for each in Tuning)
        raise InvalidJobError(f"tuning must be one of {allowed}; got {tuning!r}. Nothing was changed.") from None
    return (yield from change(core.schema, wanted, is_wanted=is_wanted, dry_run=dry_run))


def _repaired(core: Core, repair: Repair) -> Steps[Repaired]:
    from ferryman.health import HealthLimits, Repair, Repaired  # noqa: PLC0415 - see above
    from ferryman.health.worker_checks import NODE_LOCK_SECONDS  # noqa: PLC0415 - see above
    from ferryman.queries import checks  # noqa: PLC0415 - see above

    names: Sequence[str]
    match repair:
        case Repair.WEDGED_QUEUES:
            silent_for = HealthLimits().silent_for.total_seconds()
            rows = yield checks.free_wedged(silent_for=silent_for, locked_for=NODE_LOCK_SECONDS)
            names = [name for (name,) in rows]
        case Repair.DANGLING_QUEUES:
            names = _made((yield from under_lock(LOCK_QUEUES, checks.mend_queues())))
        case Repair.DANGLING_TASKS:
            names = _made((yield from under_lock(LOCK_TASKS, checks.mend_tasks())))
        case Repair.LEFTOVERS:
            [(marks, progress)] = yield checks.forget_leftovers()
            return Repaired(repair, marks + progress)
        case Repair.UNUSED_QUEUES:
            names = (yield from cleanup(core, [CleanupTask.GC_JOB_QUEUES])).queue_names
        case Repair.UNUSED_TASKS:
            names = (yield from cleanup(core, [CleanupTask.GC_TASK_IDENTIFIERS])).task_identifiers
        case never:
            assert_never(never)
    return Repaired(repair, len(names), tuple(names))


def _made(rows: Sequence[Row]) -> Sequence[str]:
    [(names, _)] = rows
    return names or ()


def _checked_repairs(repairs: Iterable[Repair | str]) -> list[Repair]:
    from ferryman.health import Repair  # noqa: PLC0415 - see above

    given = [repairs] if isinstance(repairs, str) else list(repairs)
    try:
        return list(dict.fromkeys(Repair(repair) for repair in given))
    except ValueError:
        allowed = ", ".join(repr(repair.value) for repair in Repair)
        raise InvalidJobError(f"repairs must be some of {allowed}; got {given!r}. Nothing was changed.") from None
