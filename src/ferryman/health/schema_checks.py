"""Checks of the schema, and of this role's access to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.health.report import Finding, Severity
from ferryman.health.wording import listed
from ferryman.queries import checks
from ferryman.schema import Layout, inspect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.database.steps import Steps
    from ferryman.health.subject import Subject
    from ferryman.schema import SchemaStatus

TABLES = ("_private_job_queues", "_private_jobs", "_private_tasks")
CRONTABS = "_private_known_crontabs"


def check_schema(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check which schema and extensions are installed."""
    status = yield from inspect(subject.schema)
    facts = {
        "layout": status.layout.value,
        "revision": status.revision,
        "extension_revision": status.extension_revision,
        "extension_latest": status.extension_latest,
        "functions_repaired": status.functions_repaired,
    }
    if not status.compatible:
        seen = f"Ferryman cannot use the schema {status.schema}"
        meaning, remedies = status.reason, _ways_out(status)
        return [
            Finding(check="schema", severity=Severity.ERROR, seen=seen, meaning=meaning, remedies=remedies, facts=facts)
        ]
    return [*_shortcomings(status, facts)] or [
        Finding(
            check="schema",
            severity=Severity.OK,
            seen=f"Graphile Worker's revision {status.revision}, Ferryman's extension {status.extension_revision}",
            facts=facts,
        )
    ]


def _ways_out(status: SchemaStatus) -> tuple[str, ...]:
    return ("ferryman migrate",) if status.layout in {Layout.MISSING, Layout.EMPTY} else ("ferryman schema status",)


def _shortcomings(status: SchemaStatus, facts: Mapping[str, object]) -> Iterable[Finding]:
    if (status.extension_revision or 0) < status.extension_latest:
        yield Finding(
            check="schema",
            severity=Severity.WARNING,
            seen=f"Ferryman's extension {status.extension_revision or 0} of {status.extension_latest} is installed",
            meaning="Recovery, schedules or fast claims need the missing ones.",
            remedies=("ferryman migrate",),
            facts=facts,
        )
    if not status.functions_repaired and status.layout is Layout.GRAPHILE:
        yield Finding(
            check="schema",
            severity=Severity.WARNING,
            seen=f"add_job and add_jobs are those of Graphile Worker's revision {status.revision}",
            meaning=(
                "They can lose a job with a key under load. Before revision 20, each call also uses up numbers of "
                "tasks and queues, which end at 2,147,483,647."
            ),
            remedies=("ferryman schema upgrade",),
            facts=facts,
        )
    for warning in status.warnings:
        yield Finding(check="schema", severity=Severity.NOTICE, seen=warning, facts=facts)


def check_access(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check whether this role sees the rows of the queue. Missing tables are reported by the schema check."""
    rows = yield checks.access(subject.schema.name, TABLES)
    if len(rows) < len(TABLES):
        return []
    role = rows[0][3]
    forbidden = [table for table, may_read, *_ in rows if not may_read]
    hidden = [table for table, _, is_filtered, *_ in rows if is_filtered]
    facts = {"role": role, "forbidden": forbidden, "hidden_by_row_security": hidden}
    if not forbidden and not hidden:
        seen = f"the role {role} sees all rows"
        return [Finding(check="access", severity=Severity.OK, seen=seen, facts=facts)]
    seen = f"the role {role} may not read {listed(forbidden)}"
    if not forbidden:
        seen = f"row security hides rows of {listed(hidden)} from the role {role}"
    return [
        Finding(
            check="access",
            # With hidden rows, a queue looks empty and healthy when it is not.
            severity=Severity.NOTICE if forbidden else Severity.WARNING,
            seen=seen,
            meaning="So jobs, queues, tasks and workers could not be checked. Check as the owner of the schema.",
            facts=facts,
        )
    ]
