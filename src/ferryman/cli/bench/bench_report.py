"""Reports the figures and the advice of a run: a table and sentences for people, one document for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from ferryman.cli.bench.figures import cores, milliseconds, per_second
from ferryman.cli.output import Report, bare_table
from ferryman.cli.sanitize import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from ferryman.cli.bench.advice import Advice
    from ferryman.cli.bench.bench_schema import BenchSchema
    from ferryman.cli.bench.figures import Drain, Figures, Rate, Times


def bench_report(schema: BenchSchema, figures: Figures, advice: Sequence[Advice]) -> Report:
    """Report what a run has measured, and what follows. Times are in milliseconds, rates in jobs per second."""
    document = {
        "database": schema.database,
        "figures": asdict(figures),
        "advice": [asdict(each) for each in advice],
    }
    return Report(document, _lines(schema, figures, advice))


def _lines(schema: BenchSchema, figures: Figures, advice: Sequence[Advice]) -> Iterator[RenderableType]:
    """The lines that people read: the table, how far to trust it, and the advice."""
    yield _table(figures)
    yield f"\n{_caveat(schema, figures)}"
    yield "" if advice else "\nThese figures call for no other settings."
    for each in advice:
        yield Text.assemble((f"{each.topic.replace('_', ' ')}: ", "bold"), clean_line(each.seen))
        yield _indented(Text(clean_line(each.reason)))
        for setting in each.settings:
            yield _indented(Text(f"> {setting}", "bold"))


def _table(figures: Figures) -> Table:
    table = bare_table()
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


def _caveat(schema: BenchSchema, figures: Figures) -> str:
    setup, server = figures.setup, figures.server
    rounds = f"{setup.rounds} round{'' if setup.rounds == 1 else 's'}"
    kind = f"that wait {setup.job_ms:g} ms" if setup.job_ms else "that do nothing"
    return (
        f"These are figures of this run only: {rounds} of {setup.jobs:,} jobs {kind}, concurrency "
        f"{setup.concurrency}, one process, PostgreSQL {server.version} at {clean_line(schema.database)}. "
        f"Another hour, machine or payload gives other figures."
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
