"""Adding: jobs added per second by one client on one connection, one by one and 1,000 in a call.

Each through the calls that the product's users would use, with its checks and its announcement. The limit is a bare
INSERT of the same rows with its announcement, without checks. `python -m benchmarks.enqueue` has more sizes, and the
bare SQL functions beside the clients. The client's processor time is that of the process that adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Part
from benchmarks.server import process_seconds

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product
    from benchmarks.results import Series

SINGLE, BULK = "one by one", "1,000 per call"
SIZES = {SINGLE: (0, 2_000), BULK: (1_000, 40_000)}


def measure(bench: Bench) -> Part:
    part = Part("adding")
    for scenario, (size, jobs) in SIZES.items():
        for product in bench.interleaved(part, bench.products, what=scenario):
            share = 0.25 if bench.quick else 1.0
            if size:
                share *= max(product.share, 0.1)
            count = max(int(jobs * share) // max(size, 1) * max(size, 1), size)
            with bench.leaving_out(part, product):
                _one(bench, product, count, size, part.of(scenario, product.name, "jobs/s"))
    return part


def _one(bench: Bench, product: Product, count: int, size: int, into: Series) -> None:
    with bench.watching(product) as watch, bench.adding(product) as adding:
        watch.empty()
        adding.ask({"count": max(size, 100), "size": size})  # warm: caches, prepared statements, task ids
        watch.empty()
        watch.settle_down()
        client, server = process_seconds(adding.pid), bench.server.processor_seconds()
        seconds = adding.ask({"count": count, "size": size})["seconds"]
        into.values.append(count / seconds)
        into.note(
            jobs=count,
            client_us=(process_seconds(adding.pid) - client) / count * 1e6,
            server_us=(bench.server.processor_seconds() - server) / count * 1e6,
        )
