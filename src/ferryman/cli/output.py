"""Writes what a command has to show: a JSON document for programs, or lines and tables for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ferryman import FarTime
from ferryman.cli.sanitize import clean_line, clean_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from ferryman import Job, JobCounts

UNLIMITED_COLUMNS = 1_000_000
STATE_STYLES = {"ready": "green", "scheduled": "cyan", "running": "blue", "retrying": "yellow", "failed": "red"}
NOTHING = "-"
SHORTEST = 12
"""The least width of a column that may break its cells over lines."""
GAP = 2
"""Spaces between two columns."""
_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
_NUMBERS = {"id", "priority"}
_ELASTIC = {"task", "queue", "key", "locked by"}
"""Columns of a table of jobs that a narrow terminal may break over lines. The others stay whole."""
_OPTIONAL = ("queue", "key", "locked by")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command.

    document: everything, as values that JSON has
    lines: what people read; a generator costs nothing with --json
    exit_code: 0, or 1 when nothing was done
    """

    document: object
    lines: Iterable[RenderableType]
    exit_code: int = 0


def write_report(report: Report, *, as_json: bool) -> int:
    """Write a report to stdout, and return its exit code."""
    if as_json:
        click.echo(json_line(report.document))
    else:
        console = make_console()
        for line in report.lines:
            if isinstance(line, Table):
                console.width = max(console.width, _least_width(line))
            console.print(clean_lines(line) if isinstance(line, str) else line, crop=False)
    return report.exit_code


def json_line(document: object) -> bytes:
    """Encode a document on one line, in UTF-8, also on terminals of another encoding."""
    encoded = msgspec.json.encode(document)
    try:
        return msgspec.json.format(encoded, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        # A payload that PostgreSQL accepted but msgspec does not, such as half a surrogate pair: it is passed on as it
        # is, without white space, which may contain line breaks.
        return _STRING_OR_SPACE.sub(lambda found: found[1] or b"", encoded)


def make_console() -> Console:
    """Make a console that prints text as it is, and breaks lines only to fit a terminal."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED_COLUMNS
    return console


def _least_width(table: Table) -> int:
    """Return how many columns of the terminal a table needs. In fewer, rich would silently leave out whole columns."""
    return sum((column.min_width or 1) + GAP for column in table.columns)


def bare_table(*columns: str, whole: Iterable[str] = ()) -> Table:
    """Make a table without borders. whole: columns that are never broken over lines"""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name in whole)
    return table


def rows_table(rows: Sequence[Mapping[str, str | Text]]) -> Table:
    """Make a table with one line for each row, headed by the names of its cells. Long cells are broken over lines."""
    table = bare_table()
    for name in rows[0]:
        widest = max(len(name), *(len(row[name]) for row in rows))
        table.add_column(name, overflow="fold", min_width=min(widest, SHORTEST))
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row.values()))
    return table


def jobs_table(jobs: Sequence[Job]) -> Table:
    """Make a table with one line for each job. Columns that are empty for every job are left out."""
    rows = [_job_cells(job) for job in jobs]
    hidden = {name for name in _OPTIONAL if all(str(row[name]) == NOTHING for row in rows)}
    table = bare_table()
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


def _job_cells(job: Job) -> dict[str, Text]:
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


def facts_lines(facts: Mapping[str, str | Text]) -> Text:
    """Lay out facts: names on the left, values on the right."""
    width = max(map(len, facts)) + 2
    lines = [Text.assemble((name.ljust(width), "bold"), value) for name, value in facts.items()]
    return Text("\n").join(lines)


def counts_line(counts: JobCounts) -> Text:
    """Lay out the counts of all states on one line. A count of 0 has no colour: `0 failed` is no alarm."""
    numbers = {state: getattr(counts, state) for state in STATE_STYLES}
    parts = [Text(f"{number:,} {state}", STATE_STYLES[state] if number else "") for state, number in numbers.items()]
    return Text("  ").join([Text(f"{counts.total:,} in all:", "bold"), *parts])


def styled_state(job: Job) -> Text:
    """Return the state of a job in its colour."""
    return Text(job.state.value, STATE_STYLES[job.state.value])


def timestamp(moment: datetime | None) -> str:
    """Format a time in UTC, to the second, in a form that --run-at accepts."""
    if moment is None:
        return NOTHING
    return str(moment) if isinstance(moment, FarTime) else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def text_or_dash(text: str | None) -> str:
    """Return text of the database on one line, or a dash if there is none."""
    return clean_line(text) if text else NOTHING


def job_document(job: Job) -> dict[str, Any]:
    """Return every field of a job. The payload is the text in the database, byte for byte; times are in UTC."""
    return dict(_plain_field(name, getattr(job, name)) for name in job.__struct_fields__)


def _plain_field(name: str, value: Any) -> tuple[str, Any]:
    if name == "payload_json":
        return "payload", msgspec.Raw(value.encode())
    if isinstance(value, FarTime):
        return name, str(value)
    return name, value.astimezone(UTC) if isinstance(value, datetime) else value
