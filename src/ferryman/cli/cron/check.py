"""`ferryman cron check`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import output_options
from ferryman.cli.cron.sources import read_crontab
from ferryman.cli.reports import emit
from ferryman.cli.tables import timestamp
from ferryman.cron import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman.cron import Crontab

NEVER = "never"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The entries of a crontab that can be read."""

    crontabs: Sequence[Crontab]
    now: datetime
    exit_code: int = 0

    def document(self) -> object:
        """Each entry, what it means, and when it fires next."""
        return {"entries": [entry_document(crontab) | self._next(crontab) for crontab in self.crontabs]}

    def lines(self) -> Iterator[RenderableType]:
        """A table."""
        if not self.crontabs:
            yield "There are no entries in it."
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in ("identifier", "task", "when", "next"):
            table.add_column(name, overflow="fold", no_wrap=name == "next")
        for crontab in self.crontabs:
            found = crontab.next_after(self.now)
            table.add_row(
                Text(clean_line(crontab.identifier)),
                Text(clean_line(crontab.task_identifier)),
                Text(describe(crontab)),
                Text(NEVER, "yellow") if found is None else Text(timestamp(found)),
            )
        yield table

    def _next(self, crontab: Crontab) -> dict[str, Any]:
        return {"next": crontab.next_after(self.now)}


def entry_document(crontab: Crontab) -> dict[str, Any]:
    """What a schedule is, as values that JSON has; without its payload."""
    return {
        "identifier": crontab.identifier,
        "task": crontab.task_identifier,
        "when": describe(crontab),
        "time_zone": crontab.time_zone,
    }


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--time-zone", default="UTC", show_default=True, metavar="NAME", help="For entries without tz.")
@output_options
def check(*, file: str, time_zone: str, as_json: bool) -> int:
    """Say what is wrong with a crontab, or what it means.

    FILE is - for standard input. Everything that is wrong is told at once.

    \b
    Example:
      ferryman cron check crontab
    """
    return emit(CheckReport(read_crontab(file, time_zone), datetime.now(UTC)), as_json=as_json)
