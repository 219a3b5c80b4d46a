"""Drain: how fast a table full of trivial jobs becomes empty.

Programs are started, loaded and waiting; the jobs are added, vacuumed, analysed and checkpointed; then all programs
get the word. The time runs from the moment when the first job is seen to be taken until no job is left, both seen from
outside, on a connection of the watcher's own. So the start of the process and of its connections does not count, and a
job counts when its completion is committed, not when its handler returned. Slow products get fewer jobs. Two processes
share the processors with the server, get half of the jobs, and are measured once.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.products import BATCHED, DEFAULT
from benchmarks.results import Part
from benchmarks.server import process_seconds

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product
    from benchmarks.results import Series
    from benchmarks.watching import Watch

SCENARIOS = {
    (BATCHED, 1): "best settings, 1 process",
    (DEFAULT, 1): "default settings, concurrency 24, 1 process",
    (BATCHED, 2): "best settings, 2 processes",
}

SWIFT = 0.25
"""Those that get at least this share of the jobs are also measured with two processes."""


def measure(bench: Bench) -> Part:
    part = Part("drain")
    scenarios = {key: title for key, title in SCENARIOS.items() if key[1] == 1 or not bench.quick}
    for (mode, processes), title in scenarios.items():
        swift = [product for product in bench.products if processes == 1 or product.share >= SWIFT]
        for product in bench.interleaved(part, swift, what=title, rounds=1 if processes > 1 else None):
            with bench.leaving_out(part, product):
                jobs = jobs_for(bench, product, mode) // processes
                drain(bench, product, mode, processes=processes, jobs=jobs, into=part.of(title, product.name, "jobs/s"))
    return part


def jobs_for(bench: Bench, product: Product, mode: str) -> int:
    """Fewer for those that would need minutes."""
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


def drain(bench: Bench, product: Product, mode: str, *, processes: int, jobs: int, into: Series) -> None:
    with ExitStack() as stack:
        watch = stack.enter_context(bench.watching(product))
        watch.empty()
        programs = [stack.enter_context(bench.working(product, mode)) for _ in range(processes)]
        _fill(bench, product, watch, jobs)
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
