"""The ratios that the design promises, checked against what was measured. They are reported, never asserted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.products import BATCHED, DEFAULT, FERRYMAN, NODE, PGQUEUER, RAW, RUST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Part, Series


@dataclass(frozen=True, slots=True)
class Promise:
    """Ferryman is at least so many times as good as the other in this scenario."""

    title: str
    part: str
    scenario: str
    other: str
    least: float
    of: str = FERRYMAN.name
    other_scenario: str = ""

    def ratio(self, parts: Sequence[Part]) -> float | None:
        pair = self._pair(parts)
        return pair and pair[0].times(pair[1])

    def ratio_of_processor_time(self, parts: Sequence[Part]) -> float | None:
        """By what client and server spent on a job together: a busy machine changes that much less."""
        pair = self._pair(parts)
        spent = [one.processor_time for one in pair or ()]
        return spent[1] / spent[0] if spent and spent[0] and spent[1] else None

    def _pair(self, parts: Sequence[Part]) -> tuple[Series, Series] | None:
        part = next((part for part in parts if part.name == self.part), None)
        ours = part and part.find(self.scenario, self.of)
        theirs = part and part.find(self.other_scenario or self.scenario, self.other)
        return (ours, theirs) if ours and theirs and ours.values and theirs.values else None


@dataclass(frozen=True, slots=True)
class Limit:
    """Ferryman takes no more than so much."""

    title: str
    part: str
    scenario: str
    fact: str
    most: float

    def measured(self, parts: Sequence[Part]) -> float | None:
        part = next((part for part in parts if part.name == self.part), None)
        found = part and part.find(self.scenario, FERRYMAN.name)
        return found.fact(self.fact) if found else None


def _limits() -> list[Limit]:
    from benchmarks.parts import standing  # noqa: PLC0415 - it imports products too

    return [
        Limit("connections of an idle worker", "standing", standing.IDLE, "connections", 3),
        Limit("transactions per second of an idle worker", "standing", standing.IDLE, "transactions", 1),
    ]


def _promises() -> list[Promise]:
    from benchmarks.parts import adding, drain, growth, latency, named_queue  # noqa: PLC0415 - they import products too

    best, default = drain.SCENARIOS[BATCHED, 1], drain.SCENARIOS[DEFAULT, 1]
    return [
        Promise("drain, best settings, against Node's best", "drain", best, NODE.name, 2.0),
        Promise("the same against raw SQL", "drain", best, RAW.name, 0.6),
        Promise("the same against the Rust crate's best", "drain", best, RUST.name, 1.0),
        Promise("the same against pgqueuer's best", "drain", best, PGQUEUER.name, 5.0),
        Promise("drain, default settings, against Node's defaults", "drain", default, NODE.name, 8.0),
        Promise("50 jobs in one named queue, against Node's defaults", "queue", named_queue.SCENARIO, NODE.name, 20.0),
        Promise("add_job one by one, against Node", "adding", adding.SINGLE, NODE.name, 2.0),
        Promise("add_jobs of 1,000, against Node", "adding", adding.BULK, NODE.name, 1.5),
        Promise(
            "latency when idle, p50, against Node (at most 0.9x)",
            "latency",
            latency.title("idle", 50),
            NODE.name,
            1 / 0.9,
        ),
        Promise(
            "latency when idle, p99, against Node (at most 0.7x)",
            "latency",
            latency.title("idle", 99),
            NODE.name,
            1 / 0.7,
        ),
        Promise(
            "drain at 1 M backlog, against 10 k",
            "growth",
            growth.BACKLOG[1_000_000],
            FERRYMAN.name,
            0.9,
            other_scenario=growth.BACKLOG[10_000],
        ),
    ]


def verdicts(parts: Sequence[Part]) -> list[tuple[Promise, float | None]]:
    """Each promise, and the ratio that was measured, if it was."""
    return [(promise, promise.ratio(parts)) for promise in _promises()]


def limits(parts: Sequence[Part]) -> list[tuple[Limit, float | None]]:
    """Each limit, and what was measured, if it was."""
    return [(limit, limit.measured(parts)) for limit in _limits()]
