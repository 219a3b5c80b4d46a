"""The command `ferryman bench`, which measures Ferryman on your server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ferryman.cli.arguments import CONCURRENCY, CONNECTIONS, Number, WholeNumber
from ferryman.cli.bench.advice import advise
from ferryman.cli.bench.bench_report import bench_report
from ferryman.cli.bench.bench_schema import created, find_schema
from ferryman.cli.bench.figures import FEWEST_JOBS, BenchSetup
from ferryman.cli.bench.measuring import BenchRun
from ferryman.cli.common_options import output_options
from ferryman.cli.event_loops import loop_factory
from ferryman.cli.output import write_report
from ferryman.cli.sanitize import clean_lines
from ferryman.worker.options import LARGEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.cli.bench.bench_schema import BenchSchema
    from ferryman.cli.bench.figures import Figures

MOST_JOBS = 10_000_000
MOST_MILLISECONDS = 60_000.0


@click.command()
@click.option(
    "--jobs",
    type=WholeNumber(FEWEST_JOBS, MOST_JOBS),
    metavar="N",
    help="Number of jobs in each drain.  [default: 10000]",
)
@click.option(
    "--concurrency",
    type=CONCURRENCY,
    metavar="N",
    envvar="FERRYMAN_CONCURRENCY",
    show_envvar=True,
    help="Number of jobs that run at once.  [default: number of processors]",
)
@click.option(
    "--queue-size",
    type=WholeNumber(0, LARGEST_SIZE),
    metavar="N",
    envvar="FERRYMAN_QUEUE_SIZE",
    show_envvar=True,
    help="Size of the local queue to measure beside direct claims; 0 for none.  [default: 500]",
)
@click.option(
    "--batch-delay",
    "batch_delay_ms",
    type=Number(0.0, MOST_MILLISECONDS, "milliseconds"),
    metavar="MS",
    help="How long the worker collects completions before it writes them.  [default: 0]",
)
@click.option(
    "--job-ms",
    type=Number(0.0, MOST_MILLISECONDS, "milliseconds"),
    metavar="MS",
    help="How long each job waits, as if for the reply of a service.  [default: 0]",
)
@click.option(
    "--rounds",
    type=WholeNumber(1, 100),
    metavar="N",
    help="Number of rounds. Each measures everything once.  [default: 3]",
)
@click.option(
    "--max-connections",
    type=CONNECTIONS,
    metavar="N",
    help="The most connections in the worker's pool; listening and heartbeats use two more.  [default: 10]",
)
@click.option("--database-url", metavar="URL", help="Database URL.  [default: DATABASE_URL or PG*]")
@click.option(
    "--schema",
    metavar="NAME",
    help="New schema for the run, dropped at its end.  [default: ferryman_bench_ and a random number]",
)
@output_options
def bench(*, database_url: str | None, schema: str | None, as_json: bool, **given: Any) -> int:
    """Measure Ferryman on your own server, and get advice.

    A run creates a schema of its own, adds jobs there, runs them in this process, and drops the schema, after Ctrl-C
    too. Your own jobs are not touched. The server and this machine are busy meanwhile, and idle workers of the same
    database wake up now and then without finding a job. The figures are those of this run only.

    \b
    Example:
      ferryman bench
      ferryman bench --concurrency 50 --job-ms 20 --jobs 5000
      ferryman bench --json | jq .advice
    """
    setup = BenchSetup(**{name: value for name, value in given.items() if value is not None})
    show = _print_nothing if as_json else _print
    found = find_schema(database_url, schema)
    show(_intention(setup, found))
    with created(found), asyncio.Runner(loop_factory=loop_factory()) as runner:
        figures = runner.run(_measured(found, setup, show))
    show(f"Dropped the schema {found.name}.\n")
    return write_report(bench_report(found, figures, advise(figures)), as_json=as_json)


async def _measured(schema: BenchSchema, setup: BenchSetup, show: Callable[[str], None]) -> Figures:
    return await BenchRun(schema, setup, show).measure()


def _intention(setup: BenchSetup, schema: BenchSchema) -> str:
    rounds = "once" if setup.rounds == 1 else f"in each of {setup.rounds} rounds"
    jobs = f"twice {setup.jobs:,} jobs" if setup.queue_size else f"{setup.jobs:,} jobs"
    text = (
        f"Measuring on {schema.database}, in the new schema {schema.name}, which is dropped at the end. Nothing else "
        f"there is touched. {rounds.capitalize()}, {jobs} are added and run, {setup.concurrency} at a time, in this "
        f"process. Idle workers of that database wake up and find no job. Ctrl-C stops the run."
    )
    if setup.least_seconds >= 1:
        text += f" The jobs alone take {setup.least_seconds:,.0f} s."
    return text


def _print(line: str) -> None:
    click.echo(clean_lines(line), err=True)


def _print_nothing(_: str) -> None:
    """Print no progress: with --json, only the document of an error may appear on stderr."""
