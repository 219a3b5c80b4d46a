"""Looking at the health of a queue and of its database, and mending what can be mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ferryman.client.cleaning import CleanupTask, cleanup, under_lock
from ferryman.errors import InvalidJobError
from ferryman.health import HealthLimits, Repair, Repaired, Tuning
from ferryman.health.checking import examine
from ferryman.health.tuning import change
from ferryman.health.worker_checks import NODE_LOCK_SECONDS
from ferryman.queries import cleaning, health

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.client.core import Core
    from ferryman.database.steps import Row, Steps
    from ferryman.health import HealthReport, Tuned


def check_health(core: Core, *, limits: HealthLimits | None = None) -> Steps[HealthReport]:
    """Look for everything that stops jobs, slows them down or soon will. Changes nothing.

    A check that cannot be made is a finding of its own, as for a role that may not read some tables.
    """
    report = yield from examine(core.schema, limits or HealthLimits())
    return report


def repair_health(core: Core, repairs: Iterable[Repair | str]) -> Steps[tuple[Repaired, ...]]:
    """Mend these things, as far as they still need it, while producers and workers go on.

    Everything is looked at again by the statement that changes it. The lock of a worker that may live is never touched.
    `HealthReport.repairs` says what there is to mend.
    """
    done = []
    for repair in _checked(repairs):
        repaired = yield from _repaired(core, repair)
        done.append(repaired)
    return tuple(done)


def tune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Bring an option of the tables into force that is never a default. Safe to repeat; `untune` takes it back.

    Producers and workers continue meanwhile, and Node and Rust workers too. `Tuning` says what there is.
    dry_run: whether only to say what would be done
    """
    return (yield from change(core.schema, _checked_tuning(tuning), is_wanted=True, dry_run=dry_run))


def untune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Take an option of the tables back, so that nothing is left of it. Safe to repeat.

    dry_run: whether only to say what would be done
    """
    return (yield from change(core.schema, _checked_tuning(tuning), is_wanted=False, dry_run=dry_run))


def _repaired(core: Core, repair: Repair) -> Steps[Repaired]:
    names: Sequence[str]
    match repair:
        case Repair.WEDGED_QUEUES:
            silent_for = HealthLimits().silent_for.total_seconds()
            rows = yield health.free_wedged(silent_for=silent_for, locked_for=NODE_LOCK_SECONDS)
            names = [name for (name,) in rows]
        case Repair.DANGLING_QUEUES:
            names = _made((yield from under_lock(cleaning.LOCK_QUEUES, health.MEND_QUEUES)))
        case Repair.DANGLING_TASKS:
            names = _made((yield from under_lock(cleaning.LOCK_TASKS, health.MEND_TASKS)))
        case Repair.LEFTOVERS:
            [(marks, progress)] = yield health.FORGET_LEFTOVERS
            return Repaired(repair, marks + progress)
        case Repair.UNUSED_QUEUES:
            names = (yield from cleanup(core, [CleanupTask.GC_JOB_QUEUES])).queue_names
        case Repair.UNUSED_TASKS:
            known = yield health.KNOWN_TASKS
            kept = [identifier for (identifier,) in known]
            cleaned = yield from cleanup(core, [CleanupTask.GC_TASK_IDENTIFIERS], keep_task_identifiers=kept)
            names = cleaned.task_identifiers
        case never:
            assert_never(never)
    return Repaired(repair, len(names), tuple(names))


def _made(rows: Sequence[Row]) -> Sequence[str]:
    [(names, _)] = rows
    return names or ()


def _checked(repairs: Iterable[Repair | str]) -> list[Repair]:
    given = [repairs] if isinstance(repairs, str) else list(repairs)
    try:
        return list(dict.fromkeys(Repair(repair) for repair in given))
    except ValueError:
        allowed = ", ".join(repr(repair.value) for repair in Repair)
        raise InvalidJobError(f"repairs must be some of {allowed}; got {given!r}. Nothing was changed.") from None


def _checked_tuning(tuning: Tuning | str) -> Tuning:
    try:
        return Tuning(tuning)
    except ValueError:
        allowed = ", ".join(repr(each.value) for each in Tuning)
        raise InvalidJobError(f"tuning must be one of {allowed}; got {tuning!r}. Nothing was changed.") from None
