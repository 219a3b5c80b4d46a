"""Queue: 50 jobs in one named queue, which run one after the other, with default settings.

Timed as a drain is. This is about the pause between two jobs of a queue, since only one of them can run at a time.
Only products that have serial queues take part; procrastinate calls them locks. Processor time is not shown: 50 jobs
take too little of it to be told. Those that need seconds for each job get fewer jobs, so the unit is a single one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.products import DEFAULT
from benchmarks.results import Part

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.products import Product

SCENARIO = "50 jobs in one named queue, default settings"


def measure(bench: Bench) -> Part:
    part = Part("queue")
    products = [product for product in bench.products if product.has_queues]
    for product in bench.interleaved(part, products):
        with bench.leaving_out(part, product):
            found = part.of(SCENARIO, product.name, "ms per job")
            found.values.append(_seconds(bench, product) * 1000 / product.most_in_a_queue)
            found.note(jobs=product.most_in_a_queue)
    return part


def _seconds(bench: Bench, product: Product) -> float:
    jobs = product.most_in_a_queue
    with bench.watching(product) as watch, bench.working(product, DEFAULT) as program:
        watch.empty()
        with bench.adding(product) as adding:
            adding.ask({"count": jobs, "size": jobs, "queue": "one"})
        watch.settle_down()
        first, last = watch.nth(0), watch.nth(-1)
        program.ready().send({})
        start = watch.until_taken(first, [program])
        return watch.until_drained(last, [program]) - start
