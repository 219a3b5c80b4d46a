"""Standing: what it takes to have a worker at all.

Start-up: from starting the process until it takes a job that was waiting; Ferryman and Node, which a promise is about,
start 20 times more, by turns. Idle: connections, transactions per second and memory of one worker that has run one job
and has nothing to do, default settings. All of them are idle at the same time, each in a database of its own, and
autovacuum is off while they are counted.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.products import DEFAULT, FERRYMAN, NODE, RAW
from benchmarks.results import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.products import Product
    from benchmarks.programs import Program

START, IDLE = "start-up, process to first job", "idle, memory of a worker"
SECONDS, QUICK_SECONDS = 30, 3
SECONDS_TO_CALM_DOWN = 16
"""PostgreSQL counts what a session did up to 10 seconds after it fell idle; what is asked often is prepared by then."""
ROUNDS = 2
STARTS, QUICK_STARTS = 20, 1
"""How often Ferryman and Node are started besides."""

TRANSACTIONS = "select datname, xact_commit + xact_rollback from pg_stat_database"
CONNECTIONS = "select datname, count(*) from pg_stat_activity where backend_type = 'client backend' group by datname"


def measure(bench: Bench) -> Part:
    part = Part("standing")
    products = [product for product in bench.products if product is not RAW]
    _compare_starts(bench, part)
    for number in range(min(bench.rounds, ROUNDS)):
        # Idle workers hardly disturb each other, and all wait as long: so they are watched together.
        with ExitStack() as stack:
            running = [
                (product, program)
                for product in bench.interleaved(part, products, what=f"round {number + 1}", rounds=1)
                if (program := _started(bench, product, part, stack))
            ]
            time.sleep(SECONDS_TO_CALM_DOWN)
            _watch_idle(bench, part, running)
        bench.keep(part)
    part.series.sort(key=lambda one: [START, IDLE].index(one.scenario))
    return part


def _compare_starts(bench: Bench, part: Part) -> None:
    """Measure the start-up of Ferryman and Node by turns, each first as often as the other, until their first job."""
    pair = [product for product in bench.products if product in (FERRYMAN, NODE)]
    for number in range(QUICK_STARTS if bench.quick else STARTS):
        pair.reverse()
        for product in bench.interleaved(part, pair, what=f"start {number + 1}", rounds=1):
            with ExitStack() as stack:
                _started(bench, product, part, stack)


def _started(bench: Bench, product: Product, part: Part, stack: ExitStack) -> Program | None:
    """Start a worker and let it run one job; None if it could not. Notes how long that took."""
    with bench.leaving_out(part, product), bench.watching(product) as watch:
        watch.empty()
        with bench.adding(product) as adding:
            adding.ask({"count": 1})
        job = watch.nth(0)
        start = time.perf_counter()
        program = stack.enter_context(bench.working(product, DEFAULT))
        program.send({})
        taken = watch.until_taken(job, [program]) - start
        watch.until_drained(job, [program])
        part.of(START, product.name, "ms").values.append(taken * 1000)
        return program
    return None


def _watch_idle(bench: Bench, part: Part, running: list[tuple[Product, Program]]) -> None:
    """Count connections and transactions per second, from another database, so that counting itself adds none."""
    seconds = QUICK_SECONDS if bench.quick else SECONDS
    names = {product.name: bench.url(product).rsplit("/", 1)[1] for product, _ in running}
    with psycopg.connect(bench.server.url, autocommit=True) as connection:
        with _without_autovacuum(connection):
            before = {row[0]: row[1] for row in connection.execute(TRANSACTIONS)}
            time.sleep(seconds)
            after = {row[0]: row[1] for row in connection.execute(TRANSACTIONS)}
        connections = {row[0]: row[1] for row in connection.execute(CONNECTIONS)}
    for product, program in running:
        database = names[product.name]
        with bench.leaving_out(part, product):
            program.check()
            idle = part.of(IDLE, product.name, "MB")
            idle.values.append(program.memory().get("now", 0.0))
            idle.note(
                connections=connections.get(database, 0),
                transactions=(after[database] - before[database]) / seconds,
            )


@contextmanager
def _without_autovacuum(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Turn autovacuum off for the block: its transactions, about ten a minute, would count as the worker's."""
    connection.execute("alter system set autovacuum = off")
    connection.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        connection.execute("alter system reset autovacuum")
        connection.execute("select pg_reload_conf()")
