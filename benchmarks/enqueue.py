"""Measures how fast jobs are added: `python -m benchmarks.enqueue`.

Every contender uses one connection to the same server. Rounds are interleaved, so that a slow moment of the machine
hits all of them, and the table shows medians and their spread. Compare within the table only.
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.contenders import BareFunctions, Ferryman, Node
from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from benchmarks.contenders import Contender

SIZES = {0: 1_500, 1: 1_500, 100: 10_000, 1_000: 30_000, 10_000: 60_000}
"""Jobs per call, and how many jobs a round adds; 0 is the call for a single job."""
PROMISES = {0: 2.0, 1_000: 1.5}
"""The least ratio to Node's rate that the design asks for."""


def main() -> None:
    options = _options()
    console = Console()
    with ExitStack() as stack:
        dsn = options.database_url or stack.enter_context(EmbeddedPostgres.from_dsn("embedded:")).tcp_dsn
        contenders = _contenders(stack, dsn)
        rates = _measure(contenders, dsn, rounds=options.rounds, share=options.share)
        console.print(_table(contenders, rates))
        console.print(_verdict(rates))
        _drop_schemas(dsn, contenders)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database-url", help="measure on this server instead of a private one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--share", type=float, default=1.0, help="part of the jobs to add in each round")
    return parser.parse_args()


def _contenders(stack: ExitStack, dsn: str) -> list[Contender]:
    ours, theirs = "benchmark_ferryman", "benchmark_node"
    return [
        stack.enter_context(closing(Ferryman(dsn, ours))),
        stack.enter_context(closing(Node(dsn, theirs))),
        stack.enter_context(closing(BareFunctions(dsn, theirs, "SQL functions, Graphile's"))),
        stack.enter_context(closing(BareFunctions(dsn, ours, "SQL functions, ours"))),
    ]


def _measure(contenders: list[Contender], dsn: str, *, rounds: int, share: float) -> dict[tuple[str, int], list[float]]:
    """Measure jobs per second of each program and size, once per round; a first round does not count."""
    rates: dict[tuple[str, int], list[float]] = {}
    for number in track(range(rounds + 1), description="measuring", transient=True):
        for size, jobs in SIZES.items():
            count = max(size, int(jobs * share) // max(size, 1) * max(size, 1), 1)
            for contender in contenders:
                _empty(dsn, contender.schema)
                seconds = contender.add(count, size)
                if number > 0:
                    rates.setdefault((contender.name, size), []).append(count / seconds)
    return rates


def _empty(dsn: str, schema: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("truncate {}").format(sql.Identifier(schema, "_private_jobs")))


def _drop_schemas(dsn: str, contenders: list[Contender]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for schema in sorted({contender.schema for contender in contenders}):
            connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))


def _table(contenders: list[Contender], rates: dict[tuple[str, int], list[float]]) -> Table:
    table = Table(title="Jobs added per second, medians")
    for heading in ("jobs per call", "by", "jobs/s", "lowest to highest", "to Node"):
        table.add_column(heading, justify="left" if heading in {"jobs per call", "by"} else "right")
    for size in SIZES:
        node = statistics.median(rates[Node.name, size])
        for contender in contenders:
            measured = rates[contender.name, size]
            median = statistics.median(measured)
            spread = f"{min(measured):,.0f} to {max(measured):,.0f}"
            table.add_row(_calls(size), contender.name, f"{median:,.0f}", spread, f"{median / node:.2f}x")
        table.add_section()
    return table


def _calls(size: int) -> str:
    return "one by one" if size == 0 else f"{size:,}"


def _verdict(rates: dict[tuple[str, int], list[float]]) -> str:
    lines = []
    for size, least in PROMISES.items():
        ratio = statistics.median(rates[Ferryman.name, size]) / statistics.median(rates[Node.name, size])
        mark = "✓" if ratio >= least else "✗"
        lines.append(f"{mark} {_calls(size)}: {ratio:.2f}x Node's rate; at least {least}x is promised")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
