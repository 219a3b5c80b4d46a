"""The parts of the benchmark, in the order of the report.

A part is a module with `measure(bench) -> Part`; its docstring begins with its name and says how it measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.parts import adding, drain, growth, latency, named_queue, recovery, standing, tracing

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.results import Part

PARTS: dict[str, Callable[[Bench], Part]] = {
    "drain": drain.measure,
    "queue": named_queue.measure,
    "adding": adding.measure,
    "latency": latency.measure,
    "standing": standing.measure,
    "growth": growth.measure,
    "recovery": recovery.measure,
    "tracing": tracing.measure,
}
