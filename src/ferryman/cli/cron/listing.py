"""`ferryman cron list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.commands import crontabs_command
from ferryman.cli.cron.schedule_form import schedule_document
from ferryman.cli.tables import NOTHING, timestamp
from ferryman.cron import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import SyncClient
    from ferryman.client.schedules import KnownCrontab, Schedule

COLUMNS = ("identifier", "task", "when", "state", "last", "next")
WHOLE = {"state", "last", "next"}


@dataclass(frozen=True, slots=True)
class SchedulesReport:
    """Schedules of the database, and the crontabs that workers bring along."""

    schedules: Sequence[Schedule]
    known: Sequence[KnownCrontab]
    exit_code: int = 0

    def document(self) -> object:
        """Both lists."""
        return {
            "schedules": [schedule_document(schedule) for schedule in self.schedules],
            "crontabs_of_workers": [
                {
                    "identifier": crontab.identifier,
                    "known_since": crontab.known_since,
                    "last_run_at": crontab.last_run_at,
                }
                for crontab in self.known
            ],
        }

    def lines(self) -> Iterator[RenderableType]:
        """A table."""
        if not self.schedules and not self.known:
            yield "There are no schedules, and no worker has brought a crontab along yet."
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in COLUMNS:
            table.add_column(name, overflow="fold", no_wrap=name in WHOLE)
        for schedule in self.schedules:
            table.add_row(
                Text(clean_line(schedule.identifier)),
                NOTHING if schedule.readable is None else Text(clean_line(schedule.readable.task_identifier)),
                _when(schedule),
                _state(schedule),
                timestamp(schedule.last_run_at),
                timestamp(schedule.next_run_at),
            )
        for crontab in self.known:
            last = timestamp(crontab.last_run_at)
            table.add_row(Text(clean_line(crontab.identifier)), NOTHING, NOTHING, Text("of workers"), last, NOTHING)
        yield table


def _when(schedule: Schedule) -> Text:
    if schedule.readable is None:
        return Text(clean_lines(schedule.problem or ""))
    return Text(describe(schedule.readable))


def _state(schedule: Schedule) -> Text:
    if schedule.readable is None:
        return Text("unreadable", "red")
    return Text("paused", "yellow") if schedule.is_paused else Text("active", "green")


@click.command("list")
@crontabs_command
def list_schedules(client: SyncClient) -> SchedulesReport:
    """List schedules, and when they fired and fire.

    Of crontabs that workers bring along, Node's included, the database knows only the name and when they last fired; it
    remembers those that no worker has any more, too. Times are in UTC.

    \b
    Example:
      ferryman cron list
    """
    return SchedulesReport(client.schedules.list(), client.schedules.known())
