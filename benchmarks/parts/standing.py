"""Standing: what it takes to have a worker at all.

Start-up: from starting the process until it takes a job that was waiting. Idle: connections, transactions per second
and memory of one worker that has run one job and has nothing to do, default settings.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks.products import DEFAULT, RAW
from benchmarks.results import Part

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product

START, IDLE = "start-up, process to first job", "idle, memory of a worker"
SECONDS, QUICK_SECONDS = 15, 3
SECONDS_TO_CALM_DOWN = 3

TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
CONNECTIONS = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"


def measure(bench: Bench) -> Part:
    part = Part("standing")
    products = [product for product in bench.products if product is not RAW]
    for product in bench.interleaved(part, products):
        with bench.leaving_out(part, product):
            _one(bench, product, part)
    part.series.sort(key=lambda one: [START, IDLE].index(one.scenario))
    return part


def _one(bench: Bench, product: Product, part: Part) -> None:
    with bench.watching(product) as watch:
        watch.empty()
        with bench.adding(product) as adding:
            adding.ask({"count": 1})
        job = watch.nth(0)
        start = time.perf_counter()
        with bench.working(product, DEFAULT) as program:
            program.send({})
            taken = watch.until_taken(job, [program]) - start
            part.of(START, product.name, "ms").values.append(taken * 1000)
            watch.until_drained(job, [program])
            watch.close()
            time.sleep(SECONDS_TO_CALM_DOWN)
            connections, transactions = _load(bench, product)
            memory = program.memory()
            if memory:
                idle = part.of(IDLE, product.name, "MB")
                idle.values.append(memory["now"])
                idle.note(connections=connections, transactions=transactions)


def _load(bench: Bench, product: Product) -> tuple[int, float]:
    """Connections and transactions per second, seen from another database, so that looking does not count."""
    name = bench.url(product).rsplit("/", 1)[1]
    seconds = QUICK_SECONDS if bench.quick else SECONDS
    with psycopg.connect(bench.server.url, autocommit=True) as connection:

        def ask(query: str) -> int:
            row = connection.execute(query, [name]).fetchone()
            assert row is not None
            return int(row[0])

        before = ask(TRANSACTIONS)
        time.sleep(seconds)
        return ask(CONNECTIONS), (ask(TRANSACTIONS) - before) / seconds
