"""Mending what a look at the health of a queue has found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, assert_never

from ferryman.client.cleaning import CleanupTask, cleanup, under_lock
from ferryman.database.steps import repeated
from ferryman.errors import InvalidJobError
from ferryman.health import HealthLimits, Repair, Repaired
from ferryman.health.worker_checks import NODE_LOCK_SECONDS
from ferryman.queries import checks
from ferryman.queries.jobs import LOCK_QUEUES, LOCK_TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.client.core import Core
    from ferryman.database.steps import Row, Steps


def repair(core: Core, repairs: Iterable[Repair | str]) -> Steps[tuple[Repaired, ...]]:
    """Mend these things, one after the other."""
    done = []
    for each in _checked(repairs):
        repaired = yield from repeated(partial(_repaired, core, each))
        done.append(repaired)
    return tuple(done)


def _repaired(core: Core, repair: Repair) -> Steps[Repaired]:
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


def _checked(repairs: Iterable[Repair | str]) -> list[Repair]:
    given = [repairs] if isinstance(repairs, str) else list(repairs)
    try:
        return list(dict.fromkeys(Repair(repair) for repair in given))
    except ValueError:
        allowed = ", ".join(repr(repair.value) for repair in Repair)
        raise InvalidJobError(f"repairs must be some of {allowed}; got {given!r}. Nothing was changed.") from None
