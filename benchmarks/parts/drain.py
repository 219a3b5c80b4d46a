"""Drain: how fast a table full of trivial jobs becomes empty.

Programs are started, loaded and waiting; the jobs are added, vacuumed, analysed and checkpointed; then all programs
get the word. The time runs from the moment when the first job is seen to be taken until no job is left, both seen from
outside, on a connection of the watcher's own. So the start of the process and of its connections does not count, and a
job counts when its completion is committed, not when its handler returned. Slow products get fewer jobs. Several
processes share the processors with the server, and the same number of jobs; only those that work on Graphile Worker's
tables are measured so. Each round goes through all numbers of processes, so that these can be compared too.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from benchmarks.products import BATCHED, DEFAULT, GRAPHILE_TABLES
from benchmarks.results import Part
from benchmarks.server import process_seconds

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product
    from benchmarks.results import Series
    from benchmarks.watching import Watch

PROCESSES = (1, 2, 4, 8)
MODES = {BATCHED: "best settings", DEFAULT: "default settings, concurrency 24"}


def title(mode: str, processes: int) -> str:
    return f"{MODES[mode]}, {processes} {'process' if processes == 1 else 'processes'}"


def measure(bench: Bench) -> Part:
    part = Part("drain")
    counts = PROCESSES[:1] if bench.quick else PROCESSES
    for mode, described in MODES.items():
        for product in bench.interleaved(part, bench.products, what=described):
            for processes in counts if product.tables is GRAPHILE_TABLES else counts[:1]:
                with bench.leaving_out(part, product):
                    jobs = jobs_for(bench, product, mode)
                    into = part.of(title(mode, processes), product.name, "jobs/s")
                    drain(bench, product, mode, processes=processes, jobs=jobs, into=into)
    order = [title(mode, processes) for mode in MODES for processes in PROCESSES]
    part.series.sort(key=lambda one: order.index(one.scenario))
    return part


def jobs_for(bench: Bench, product: Product, mode: str) -> int:
    """Return how many jobs to drain: fewer for products that would need minutes."""
    if mode == DEFAULT:
        return min(bench.jobs, product.most_by_default)
    return max(1_000, int(bench.jobs * product.share))


def _fill(bench: Bench, product: Product, watch: Watch, jobs: int) -> None:
    size = min(product.bulk, jobs)
    if product.tables.fill:
        watch.fill(jobs, size)
        return
    with bench.adding(product) as adding:
        adding.ask({"count": jobs, "size": size})


def drain(
    bench: Bench,
    product: Product,
    mode: str,
    *,
    processes: int,
    jobs: int,
    into: Series,
    changed: dict[str, Any] | None = None,
    after_fill: str = "",
) -> None:
    """Measure how fast a product drains `jobs` jobs.

    changed: settings of the mode that are others this time
    after_fill: a statement that makes other jobs of them
    """
    with ExitStack() as stack:
        watch = stack.enter_context(bench.watching(product))
        watch.empty()
        programs = [stack.enter_context(bench.working(product, mode, **(changed or {}))) for _ in range(processes)]
        _fill(bench, product, watch, jobs)
        if after_fill:
            watch.change(after_fill)
        watch.settle_down()
        first, last = watch.nth(0), watch.nth(-1)
        for program in programs:
            program.ready()
        client, server, wal = (
            [process_seconds(each.pid) for each in programs],
            bench.server.processor_seconds(),
            watch.wal_position(),
        )
        for program in programs:
            program.send({})
        start = watch.until_taken(first, programs)
        seconds = watch.until_drained(last, programs) - start
        into.values.append(jobs / seconds)
        into.note(
            jobs=jobs,
            client_us=(sum(process_seconds(each.pid) for each in programs) - sum(client)) / jobs * 1e6,
            server_us=(bench.server.processor_seconds() - server) / jobs * 1e6,
            wal_bytes=(watch.wal_position() - wal) / jobs,
            megabytes=max(each.memory().get("most", 0.0) for each in programs),
        )
