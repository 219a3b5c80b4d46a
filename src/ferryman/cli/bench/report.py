"""The figures and the advice, as a table and sentences for people or as one document for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ferryman.cli.bench.wording import cores, milliseconds, per_second
from ferryman.cli.clean import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman.cli.bench.advice import Advice
    from ferryman.cli.bench.figures import Drain, Figures, Rate, Times
    from ferryman.cli.bench.ground import Ground


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What a run has measured, and what follows."""

    ground: Ground
    figures: Figures
    advice: Sequence[Advice]
    exit_code: int = 0

    def document(self) -> object:
        """Times in milliseconds, rates in jobs per second."""
        return {
            "database": self.ground.place,
            "figures": asdict(self.figures),
            "advice": [asdict(each) for each in self.advice],
        }

    def lines(self) -> Iterator[RenderableType]:
        """The table, what it is worth, and the advice."""
        yield self._table()
        yield f"\n{self._caveat()}"
        yield "" if self.advice else "\nNothing in these figures calls for other settings."
        for each in self.advice:
            yield Text.assemble((f"{each.topic.replace('_', ' ')}: ", "bold"), clean_line(each.seen))
            yield _indented(Text(clean_line(each.reason)))
            for setting in each.settings:
                yield _indented(Text(f"> {setting}", "bold"))

    def _table(self) -> Table:
        figures = self.figures
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("measured")
        table.add_column("median", justify="right", no_wrap=True)
        table.add_column("range")
        table.add_column("processor time of this process")
        table.add_row("round trip (select 1)", *_time_cells(figures.round_trip))
        table.add_row("small insert, committed", *_time_cells(figures.commit))
        table.add_row("adding jobs one by one", *_rate_cells(figures.add_one))
        table.add_row("adding jobs in bulk", *_rate_cells(figures.add_bulk))
        table.add_row("draining, direct", *_drain_cells(figures.direct))
        if figures.local_queue is not None:
            name = f"draining, local queue of {figures.setup.queue_size:,}"
            table.add_row(name, *_drain_cells(figures.local_queue))
        table.add_row("from adding to start, idle worker", *_time_cells(figures.latency))
        return table

    def _caveat(self) -> str:
        setup, server = self.figures.setup, self.figures.server
        rounds = f"{setup.rounds} round{'' if setup.rounds == 1 else 's'}"
        kind = f"that wait {setup.job_ms:g} ms" if setup.job_ms else "that do nothing"
        return (
            f"These are figures of this run only: {rounds} of {setup.jobs:,} jobs {kind}, concurrency "
            f"{setup.concurrency}, one process, PostgreSQL {server.version} at {clean_line(self.ground.place)}. "
            f"Another hour, machine or payload gives others."
        )


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _time_cells(times: Times) -> tuple[str, str, str]:
    return milliseconds(times.p50), f"p95 {milliseconds(times.p95)}, p99 {milliseconds(times.p99)}", ""


def _rate_cells(rate: Rate) -> tuple[str, str, str]:
    spread = "" if rate.lowest == rate.highest else f"{rate.lowest:,.0f} to {rate.highest:,.0f}"
    return per_second(rate.median), spread, ""


def _drain_cells(drain: Drain) -> tuple[str, str, str]:
    figure, spread, _ = _rate_cells(drain.rate)
    return figure, spread, f"{drain.cpu_us:,.0f} µs per job, {cores(drain.cpu_share)}"
