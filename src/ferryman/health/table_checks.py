"""Checks of the tables: sequences that run out, dead rows, the key index, and unused queues and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.health.report import Finding, Repair, Severity
from ferryman.health.tuning import KEY_INDEX
from ferryman.health.wording import amount, counted, percent, span
from ferryman.queries import checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.database.steps import Row, Steps
    from ferryman.health.subject import Subject

BUSY_TABLES = ("_private_job_queues", "_private_jobs")
NEARLY_ALL = 0.9
MANY_TIMES = 10
ROUNDS = 5
"""Rounds of autovacuum after which a table with dead rows was left out."""


def check_sequences(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check how many ids the sequences of tasks and queues have left. When one has none, adding jobs fails."""
    rows = yield checks.sequences(subject.schema.name)
    free: dict[str, tuple[int, int]] = {}
    if any(_share(row) >= subject.limits.sequence_used / 2 for row in rows):
        gaps = yield checks.free_numbers()
        free = {table: (first, last) for table, first, last in gaps}
    return [_sequence(subject, row, free.get(row[0])) for row in rows]


def _share(row: Row) -> float:
    _, _, most, last, *_ = row
    return (last or 0) / float(most)


def _sequence(subject: Subject, row: Row, free: tuple[int, int] | None) -> Finding:
    _, sequence, most, last, is_readable, place = row
    facts = {"sequence": sequence, "last_value": last, "max_value": most}
    if not is_readable:
        return Finding(
            check="sequences",
            severity=Severity.NOTICE,
            seen=f"this role may not read {sequence}",
            remedies=(f"grant select on sequence {place} to <this role>;",),
            facts=facts,
        )
    share = _share(row)
    severity = _sequence_severity(share, subject.limits.sequence_used)
    seen = f"{sequence}: {percent(share)} of {most:,} numbers used"
    if severity is Severity.OK:
        return Finding(check="sequences", severity=severity, seen=seen, facts=facts)
    meaning = "When the numbers are used up, jobs can no longer be added."
    remedies = ["ferryman schema upgrade"]
    if free is not None:
        first, end = free
        meaning += (
            f" Graphile Worker before revision 20 uses one with every job: stop that first. Then restart the sequence "
            f"where {first:,} to {end:,} are free."
        )
        remedies.append(f"alter sequence {place} restart with {first};")
    return Finding(
        check="sequences", severity=severity, seen=seen, meaning=meaning, remedies=tuple(remedies), facts=facts
    )


def _sequence_severity(share: float, limit: float) -> Severity:
    if share >= max(limit, NEARLY_ALL):
        return Severity.ERROR
    if share >= limit:
        return Severity.WARNING
    return Severity.NOTICE if share >= limit / 2 else Severity.OK


def check_upkeep(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check that dead rows are removed."""
    rows = yield checks.upkeep(subject.schema.name, BUSY_TABLES)
    return [_upkeep(subject, row) for row in rows]


def _upkeep(subject: Subject, row: Row) -> Finding:
    table, live, dead, since, is_on, is_on_here, seconds_per_round = row
    last = "never vacuumed" if since is None else f"vacuumed {span(since)} ago"
    severity, meaning, remedies = Severity.OK, None, []  # type: Severity, str | None, list[str]
    place = f"{subject.schema}.{table}"
    if dead >= subject.limits.dead_rows:
        # A busy queue makes that many between two rounds, and autovacuum removes them in the next one. A queue that was
        # quiet has not been vacuumed for long without any fault: only very many rows show that autovacuum is late.
        has_not_come = since is None or since > ROUNDS * seconds_per_round
        is_late = has_not_come and dead >= subject.limits.dead_rows * MANY_TIMES
        severity = Severity.WARNING if is_late else Severity.NOTICE
        meaning = (
            "Claims skip dead rows and slow down. If vacuum does not help, see the finding about pinned rows."
            if is_late
            else "Claims skip dead rows until autovacuum removes them, in rounds of "
            f"{span(seconds_per_round)}. That many are usual for a busy queue."
        )
        remedies.append(f"vacuum (analyze) {place};")
    if not (is_on and is_on_here):
        severity = Severity.WARNING
        where = "this table" if is_on else "the whole server"
        meaning = f"Autovacuum is off for {where}: dead rows are never removed, and claims slow down with each job."
        remedies.append(
            f"alter table {place} reset (autovacuum_enabled);"
            if is_on
            else "alter system set autovacuum = on; select pg_reload_conf();"
        )
    return Finding(
        check="dead_rows",
        severity=severity,
        seen=f"{table}: {counted(dead, 'dead row')} beside {live:,} live, {last}",
        meaning=meaning,
        remedies=tuple(remedies),
        facts={
            "table": table,
            "live": live,
            "dead": dead,
            "seconds_since_vacuum": since,
            "autovacuum": is_on and is_on_here,
        },
    )


def check_key_index(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check that the index of job keys exists, and how it stores its entries."""
    [(is_there, _, _, _, deduplicates, size)] = yield checks.key_index(subject.schema.name)
    if not is_there:
        return [_missing_key_index(subject)]
    how = "as Graphile Worker made it" if deduplicates else "tuned not to deduplicate"
    return [
        Finding(
            check="key_index",
            severity=Severity.OK,
            seen=f"{KEY_INDEX}: {amount(size)}, {how}",
            facts={"index": KEY_INDEX, "is_there": True, "deduplicates": deduplicates, "bytes": size},
        )
    ]


def _missing_key_index(subject: Subject) -> Finding:
    return Finding(
        check="key_index",
        severity=Severity.WARNING,
        seen=f"the table of jobs has no index {KEY_INDEX}",
        meaning=(
            "Graphile Worker creates it. Without another unique index on the key, jobs cannot be added with a key, or "
            "one key can have two jobs."
        ),
        remedies=(f"alter table {subject.schema}._private_jobs add constraint {KEY_INDEX} unique (key);",),
        facts={"index": KEY_INDEX, "is_there": False, "deduplicates": None, "bytes": None},
    )


def check_queues(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check how many queues there are. Node locks every idle one with each claim."""
    [(number, unused)] = yield checks.queues()
    severity, meaning, remedies, repair = Severity.OK, None, [], None  # type: Severity, str | None, list[str], Repair | None
    if number >= subject.limits.unused_queues * MANY_TIMES:
        severity = Severity.WARNING
        meaning = "Workers of Node and Rust lock every idle queue with each claim, which is slow with this many."
    if unused >= subject.limits.unused_queues:
        severity = max(severity, Severity.NOTICE, key=lambda one: one.rank)
        meaning = meaning or "A queue stays after its last job. This many take up space and time."
        remedies.append("ferryman cleanup gc-job-queues")
        repair = Repair.UNUSED_QUEUES
    return [
        Finding(
            check="queues",
            severity=severity,
            seen=f"{counted(number, 'queue')}, {unused:,} of them without jobs",
            meaning=meaning,
            remedies=tuple(remedies),
            repair=repair,
            facts={"queues": number, "unused": unused},
        )
    ]


def check_tasks(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check how many tasks there are. Names that are generated per job pile up."""
    [(number, unused)] = yield checks.tasks()
    has_many = unused >= subject.limits.unused_tasks
    return [
        Finding(
            check="tasks",
            severity=Severity.NOTICE if has_many else Severity.OK,
            seen=f"{counted(number, 'task')}, {unused:,} of them without jobs",
            meaning=(
                "A program seems to generate names of tasks. Running workers of Node and Rust do not see new jobs of a "
                "deleted task until they restart: name their tasks with --keep."
                if has_many
                else None
            ),
            remedies=("ferryman cleanup gc-task-identifiers --keep <task>",) if has_many else (),
            repair=Repair.UNUSED_TASKS if has_many else None,
            facts={"tasks": number, "unused": unused},
        )
    ]
