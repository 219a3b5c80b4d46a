"""Jobs, counts and facts, laid out for people."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ferryman import FarTime
from ferryman.cli.clean import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ferryman import Job, JobCounts

STATE_STYLES = {"ready": "green", "scheduled": "cyan", "running": "blue", "retrying": "yellow", "failed": "red"}
NOTHING = "-"
_NUMBERS = {"id", "priority"}
_ELASTIC = {"task", "queue", "key", "locked by"}
"""Columns that a narrow terminal may break over lines. The others stay whole."""
SHORTEST = 12
GAP = 2
"""Between two columns."""
_OPTIONAL = ("queue", "key", "locked by")


def jobs_table(jobs: Sequence[Job]) -> Table:
    """One line for each job, without columns in which no job has anything."""
    rows = [_cells(job) for job in jobs]
    hidden = {name for name in _OPTIONAL if all(str(row[name]) == NOTHING for row in rows)}
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in [name for name in rows[0] if name not in hidden]:
        widest = max(len(name), *(len(row[name]) for row in rows))
        table.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            no_wrap=name not in _ELASTIC,
            overflow="fold",
            min_width=min(widest, SHORTEST) if name in _ELASTIC else widest,
        )
    for row in rows:
        table.add_row(*(cell for name, cell in row.items() if name not in hidden))
    return table


def least_width(table: Table) -> int:
    """How many columns the table needs. In fewer, rich would leave whole columns out without a sign."""
    return sum((column.min_width or 1) + GAP for column in table.columns)


def facts_lines(facts: Mapping[str, str | Text]) -> Text:
    """Names on the left, values on the right."""
    width = max(map(len, facts)) + 2
    lines = [Text.assemble((name.ljust(width), "bold"), value) for name, value in facts.items()]
    return Text("\n").join(lines)


def counts_line(counts: JobCounts) -> Text:
    """All states on one line. A state that no job is in has no colour: `0 failed` is no alarm."""
    numbers = {state: getattr(counts, state) for state in STATE_STYLES}
    parts = [Text(f"{number:,} {state}", STATE_STYLES[state] if number else "") for state, number in numbers.items()]
    return Text("  ").join([Text(f"{counts.total:,} in all:", "bold"), *parts])


def timestamp(moment: datetime | None) -> str:
    """In UTC, to the second, in a form that --run-at takes back."""
    if moment is None:
        return NOTHING
    return str(moment) if isinstance(moment, FarTime) else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def text_or_dash(text: str | None) -> str:
    """Text of the database on one line."""
    return clean_line(text) if text else NOTHING


def styled_state(job: Job) -> Text:
    """The state in its colour."""
    return Text(job.state.value, STATE_STYLES[job.state.value])


def _cells(job: Job) -> dict[str, Text]:
    return {
        "id": Text(str(job.id)),
        "task": Text(text_or_dash(job.task_identifier)),
        "queue": Text(text_or_dash(job.queue_name)),
        "state": styled_state(job),
        "run at": Text(timestamp(job.run_at)),
        "attempts": Text(f"{job.attempts}/{job.max_attempts}"),
        "priority": Text(str(job.priority)),
        "key": Text(text_or_dash(job.key)),
        "locked by": Text(text_or_dash(job.locked_by)),
    }
