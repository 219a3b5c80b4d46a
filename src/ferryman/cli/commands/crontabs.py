"""The commands `ferryman cron check` and `ferryman cron next`, which explain schedules without a database."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
from rich.text import Text

from ferryman.cli.arguments import WholeNumber, moment
from ferryman.cli.commands.stored_schedules import crontab_document
from ferryman.cli.common_options import report_command
from ferryman.cli.output import Report, bare_table, timestamp
from ferryman.cli.sanitize import clean_line
from ferryman.cli.worker.app_finder import find_app
from ferryman.cron import Crontab, describe, next_times, parse_crontab, parse_timer
from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

COUNT = 5
MOST = 1000
NEVER = "never"
PATTERN_TASK = "pattern"


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--time-zone", default="UTC", show_default=True, metavar="NAME", help="Time zone of entries without tz.")
@report_command
def check(*, file: str, time_zone: str) -> Report:
    """Show the errors in a crontab, or what it means.

    FILE is a path, or - for standard input. All errors are reported at once.

    \b
    Example:
      ferryman cron check crontab
    """
    now = datetime.now(UTC)
    entries = [(crontab, crontab.next_after(now)) for crontab in _read_crontab(file, time_zone)]
    document = {"entries": [crontab_document(crontab) | {"next": following} for crontab, following in entries]}
    return Report(document, _entry_lines(entries))


def _entry_lines(entries: Sequence[tuple[Crontab, datetime | None]]) -> Iterator[RenderableType]:
    if not entries:
        yield "The crontab has no entries."
        return
    table = bare_table("identifier", "task", "when", "next", whole={"next"})
    for crontab, following in entries:
        table.add_row(
            Text(clean_line(crontab.identifier)),
            Text(clean_line(crontab.task_identifier)),
            Text(describe(crontab)),
            Text(NEVER, "yellow") if following is None else Text(timestamp(following)),
        )
    yield table


@click.command("next")
@click.argument("source")
@click.option("--count", type=WholeNumber(1, MOST), default=COUNT, show_default=True, help="Number of times to show.")
@click.option("--after", type=moment, metavar="TIME", help="Show times after this one.  [default: now]")
@click.option(
    "--time-zone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    help="Time zone of a pattern, or of entries without tz.",
)
@report_command
def upcoming(*, source: str, count: int, after: datetime | None, time_zone: str) -> Report:
    """Show when schedules fire next.

    SOURCE is a pattern in quotes, a crontab file, or an application as MODULE or MODULE:APP.

    \b
    Example:
      ferryman cron next "0 8 * * 1-5" --time-zone Europe/Paris
      ferryman cron next crontab
      ferryman cron next tasks:app --count 3
    """
    start = after or datetime.now(UTC)
    entries = [(crontab, [*next_times(crontab, start, count)]) for crontab in _find_crontabs(source, time_zone)]
    document = {"entries": [crontab_document(crontab) | {"next": times} for crontab, times in entries]}
    return Report(document, _upcoming_lines(entries))


def _upcoming_lines(entries: Sequence[tuple[Crontab, Sequence[datetime]]]) -> Iterator[RenderableType]:
    """The lines that people read: each schedule in words, and its next times below it."""
    if not entries:
        yield "There are no schedules."
    for number, (crontab, times) in enumerate(entries):
        if number:
            yield ""
        name = "" if crontab.identifier == PATTERN_TASK else f"{clean_line(crontab.identifier)}: "
        yield Text.assemble((name, "bold"), describe(crontab), ("" if times else f" ({NEVER})", "yellow"))
        for time in times:
            yield f"  {timestamp(time)}{_local_time(time, crontab.time_zone)}"


def _local_time(time: datetime, zone: str) -> str:
    return "" if zone == "UTC" else f"  {time.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}"


def _find_crontabs(source: str, time_zone: str) -> Sequence[Crontab]:
    """Return the crontabs of a source: text with spaces is a pattern, a path is a file, another name an application."""
    if " " in source.strip():
        return [Crontab(parse_timer(source.strip()), PATTERN_TASK, time_zone=time_zone)]
    if source == "-" or Path(source).is_file():
        return _read_crontab(source, time_zone)
    return find_app(source).crontabs


def _read_crontab(file: str, time_zone: str) -> list[Crontab]:
    """Return the entries of a file; `-` is standard input."""
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CrontabError(f"{file} is not text in UTF-8: line {line} has an invalid byte. Save it as UTF-8.") from None
    return parse_crontab(text, time_zone=time_zone)
