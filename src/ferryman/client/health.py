"""Looking at the health of a queue and of its database, and mending what can be mended.

The checks and their statements are imported when they are asked for: workers and producers never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.errors import InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.client.core import Core
    from ferryman.database.steps import Steps
    from ferryman.health import HealthLimits, HealthReport, Repair, Repaired, Tuned, Tuning


def check_health(core: Core, *, limits: HealthLimits | None = None) -> Steps[HealthReport]:
    """Look for everything that stops jobs, slows them down or soon will. Changes nothing.

    A check that cannot be made is a finding of its own, as for a role that may not read some tables.
    """
    from ferryman.health import HealthLimits  # noqa: PLC0415 - see above
    from ferryman.health.checking import examine  # noqa: PLC0415 - see above

    report = yield from examine(core.schema, limits or HealthLimits())
    return report


def hidden_tables(core: Core) -> Steps[tuple[str, ...]]:
    """The tables of jobs and crontabs of which row security shows this role no rows, so that they look empty."""
    from ferryman.health.schema_checks import CRONTABS, TABLES  # noqa: PLC0415 - see above
    from ferryman.queries import checks  # noqa: PLC0415 - see above

    rows = yield checks.access(core.schema.name, (*TABLES, CRONTABS))
    return tuple(table for table, may_read, _, _, is_hidden in rows if may_read and is_hidden)


def repair_health(core: Core, repairs: Iterable[Repair | str]) -> Steps[tuple[Repaired, ...]]:
    """Mend these things, as far as they still need it, while producers and workers go on.

    Everything is looked at again by the statement that changes it. The lock of a worker that may live is never touched.
    `HealthReport.repairs` says what there is to mend.
    """
    from ferryman.client.repairing import repair  # noqa: PLC0415 - see above

    repaired = yield from repair(core, repairs)
    return repaired


def tune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Bring an option of the tables into force that is never a default. Safe to repeat; `untune` takes it back.

    Producers and workers continue meanwhile, and Node and Rust workers too. `Tuning` says what there is.
    dry_run: whether only to say what would be done
    """
    return (yield from _change(core, tuning, is_wanted=True, dry_run=dry_run))


def untune(core: Core, tuning: Tuning | str, *, dry_run: bool = False) -> Steps[Tuned]:
    """Take an option of the tables back, so that nothing is left of it. Safe to repeat.

    dry_run: whether only to say what would be done
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
