"""`ferryman cron next`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
from rich.text import Text

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import output_options
from ferryman.cli.cron.check import NEVER, entry_document
from ferryman.cli.cron.sources import PATTERN_TASK, find_crontabs
from ferryman.cli.numbers import Whole
from ferryman.cli.reports import emit
from ferryman.cli.tables import timestamp
from ferryman.cli.times import moment
from ferryman.cron import describe, next_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman.cron import Crontab

COUNT = 5
MOST = 1000


@dataclass(frozen=True, slots=True)
class NextReport:
    """When schedules fire next."""

    crontabs: Sequence[Crontab]
    after: datetime
    count: int
    exit_code: int = 0

    def document(self) -> object:
        """Each schedule with its next times."""
        return {"entries": [entry_document(crontab) | {"next": self._times(crontab)} for crontab in self.crontabs]}

    def lines(self) -> Iterator[RenderableType]:
        """Each schedule in words, and its times below it."""
        if not self.crontabs:
            yield "There are no schedules."
        for number, crontab in enumerate(self.crontabs):
            if number:
                yield ""
            times = self._times(crontab)
            yield _headline(crontab, fires=bool(times))
            for time in times:
                yield f"  {timestamp(time)}{_local(time, crontab.time_zone)}"

    def _times(self, crontab: Crontab) -> list[datetime]:
        return list(next_times(crontab, self.after, self.count))


def _headline(crontab: Crontab, *, fires: bool) -> Text:
    name = "" if crontab.identifier == PATTERN_TASK else f"{clean_line(crontab.identifier)}: "
    return Text.assemble((name, "bold"), describe(crontab), ("" if fires else f" ({NEVER})", "yellow"))


def _local(time: datetime, zone: str) -> str:
    return "" if zone == "UTC" else f"  {time.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}"


@click.command("next")
@click.argument("source")
@click.option("--count", type=Whole(1, MOST), default=COUNT, show_default=True, help="How many times to tell.")
@click.option("--after", type=moment, metavar="TIME", help="Only times after this one.  [default: now]")
@click.option("--time-zone", default="UTC", show_default=True, metavar="NAME", help="For what names no time zone.")
@output_options
def upcoming(*, source: str, count: int, after: datetime | None, time_zone: str, as_json: bool) -> int:
    """Say when schedules fire next.

    SOURCE is a pattern in quotes, a crontab file, or an application as MODULE or MODULE:APP.

    \b
    Example:
      ferryman cron next "0 8 * * 1-5" --time-zone Europe/Paris
      ferryman cron next crontab
      ferryman cron next tasks:app --count 3
    """
    report = NextReport(find_crontabs(source, time_zone), after or datetime.now(UTC), count)
    return emit(report, as_json=as_json)
