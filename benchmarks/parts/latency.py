"""Latency: from just before the call that adds a job, in one process, until its handler starts, in another.

Idle: 40 jobs a second that do nothing, one worker. Half load: 120 jobs a second that each take 100 ms, which keeps
12 of the 24 slots busy, measured once. The product's own client adds, and the commit of the add is part of the time.
Default settings. Each round has its own percentiles, and the tables show their medians, so that one bad moment of the
machine does not make the 99th.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from benchmarks.products import DEFAULT, RAW
from benchmarks.results import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench
    from benchmarks.products import Product

PERCENTILES = (50, 95, 99)
IDLE, HALF = "idle", "half load"
LOADS = {IDLE: {"rate": 40, "ms": 0}, HALF: {"rate": 120, "ms": 100}}
SECONDS, QUICK_SECONDS = 6, 2
SECONDS_TO_WARM_UP = 1


def title(load: str, percentile: int) -> str:
    return f"{load}, p{percentile}"


def measure(bench: Bench) -> Part:
    part = Part("latency")
    products = [product for product in bench.products if product is not RAW]
    for load, order in LOADS.items():
        for product in bench.interleaved(part, products, what=load, rounds=1 if load == HALF else None):
            with bench.leaving_out(part, product):
                delays = _delays(bench, product, order)
                for percentile in PERCENTILES:
                    found = part.of(title(load, percentile), product.name, "ms")
                    found.values.append(at_percentile(delays, percentile))
                    found.note(jobs=len(delays))
    part.series.sort(key=lambda one: [title(load, each) for load in LOADS for each in PERCENTILES].index(one.scenario))
    return part


def at_percentile(values: Sequence[float], percentile: int) -> float:
    """Return the percentile: the smallest value that this part of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percentile / 100) - 1)]


def _delays(bench: Bench, product: Product, order: dict[str, int]) -> list[float]:
    seconds = QUICK_SECONDS if bench.quick else SECONDS
    with bench.watching(product) as watch, bench.working(product, DEFAULT) as program:
        watch.empty()
        with bench.adding(product) as adding:
            adding.ask({"count": 1})
            job = watch.nth(0)
            program.ready().send({})
            watch.until_drained(job, [program])
            adding.ask(order | {"count": order["rate"] * SECONDS_TO_WARM_UP})
            program.ask({})
            adding.ask(order | {"count": order["rate"] * seconds})
            time.sleep(1)  # the last ones may still be starting
            delays: list[float] = program.ask({})["delays"]
            return delays
