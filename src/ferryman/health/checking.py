"""Runs the checks one by one: a check that fails is a finding, and the others continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.failures import LOCK_NOT_AVAILABLE, message_of, sqlstate_of
from ferryman.database.steps import Commit, Rollback, Transaction
from ferryman.errors import DatabaseError, DatabaseUnavailableError, SchemaError
from ferryman.health import job_checks, schema_checks, server_checks, table_checks, worker_checks
from ferryman.health.report import Finding, HealthReport, Severity
from ferryman.health.subject import Subject
from ferryman.queries import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps
    from ferryman.errors import FerrymanError
    from ferryman.health.thresholds import HealthLimits

    Check: TypeAlias = Callable[[Subject], Steps[Iterable[Finding]]]

INSUFFICIENT_PRIVILEGE = "42501"
QUERY_CANCELED = "57014"

OF_THE_SERVER: Mapping[str, Check] = {
    "server": server_checks.check_server,
    "pooler": server_checks.check_pooler,
    "connections": server_checks.check_connections,
    "notifications": server_checks.check_notifications,
    "deadlock_timeout": server_checks.check_deadlocks,
    "pinned_rows": server_checks.check_horizon,
    "replication_slots": server_checks.check_slots,
    "schema": schema_checks.check_schema,
}
OF_THE_TABLES: Mapping[str, Check] = {
    "sequences": table_checks.check_sequences,
    "dead_rows": table_checks.check_upkeep,
    "key_index": table_checks.check_key_index,
    "queues": table_checks.check_queues,
    "tasks": table_checks.check_tasks,
    "dangling_jobs": job_checks.check_dangling,
    "waiting_jobs": worker_checks.check_waiting,
    "wedged_queues": worker_checks.check_wedged,
    "workers": worker_checks.check_silent_workers,
    "recovery_locks": worker_checks.check_recovery_locks,
    "long_locks": worker_checks.check_long_locks,
    "unregistered_locks": worker_checks.check_unregistered_locks,
    "odd_times": job_checks.check_odd_times,
    "failed_jobs": job_checks.check_failed,
    "old_failed_jobs": job_checks.check_old_failed,
    "poisoned_jobs": job_checks.check_poisoned,
    "leftovers": job_checks.check_leftovers,
}


def examine(schema: SchemaName, limits: HealthLimits) -> Steps[HealthReport]:
    """Run all checks. They change nothing."""
    subject = Subject(schema, limits)
    findings: list[Finding] = []
    for name, check in OF_THE_SERVER.items():
        findings += yield from _isolated(name, check, subject)
    access = yield from _isolated("access", schema_checks.check_access, subject)
    findings += access
    if access and all(finding.severity is Severity.OK for finding in access):
        for name, check in OF_THE_TABLES.items():
            findings += yield from _isolated(name, check, subject)
    return HealthReport(schema.name, tuple(findings))


def _isolated(name: str, check: Check, subject: Subject) -> Steps[Sequence[Finding]]:
    yield Transaction()
    try:
        yield checks.settings()
        findings = yield from check(subject)
    except DatabaseUnavailableError:
        raise
    except (DatabaseError, SchemaError) as error:
        yield Rollback()
        return [_failed(name, error)]
    yield Commit()
    return list(findings)


def _failed(name: str, error: FerrymanError) -> Finding:
    """Return the finding that reports a check that itself failed. What it would have found is unknown."""
    state, severity, remedies = sqlstate_of(error), Severity.WARNING, ()  # type: str | None, Severity, tuple[str, ...]
    if isinstance(error, SchemaError):
        severity, remedies = Severity.NOTICE, ("ferryman migrate",)
        meaning = "Some of Ferryman's database objects are missing, so this is not known."
    elif state == INSUFFICIENT_PRIVILEGE:
        severity = Severity.NOTICE
        meaning = "This role may not read it, so this is not known. Run the check as the owner of the schema."
    elif state in {QUERY_CANCELED, LOCK_NOT_AVAILABLE}:
        meaning = "Another session holds a lock, or the server is very busy, so this is not known. Try again later."
    else:
        meaning = "So this is not known. The other checks are not affected."
    return Finding(
        check=name,
        severity=severity,
        seen=f"could not be checked: {message_of(error)}",
        meaning=meaning,
        remedies=remedies,
        facts={"sqlstate": state},
    )
