"""The ratios that the design promises, checked against what was measured. They are reported, never asserted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.products import BATCHED, DEFAULT, FERRYMAN, FERRYMAN_UVLOOP, NODE, PGQUEUER, RAW, RUST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Part, Series


@dataclass(frozen=True, slots=True)
class Verdict:
    """A promise and what became of it, ready to be shown.

    held: None if it was not measured
    by_round, by_processor_time: the same ratio taken in other ways; empty where there is none
    """

    title: str
    promised: str
    held: bool | None = None
    measured: str = "not measured"
    by_round: str = ""
    by_processor_time: str = ""

    @property
    def mark(self) -> str:
        return {True: "✓", False: "✗", None: "?"}[self.held]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ferryman is so many times as good as the other in this scenario, at least.

    ours: which of ours
    of_time: the bound is about times, ours to theirs: at most so many times as long
    """

    title: str
    part: str
    scenario: str
    other: str
    bound: float
    other_scenario: str = ""
    ours: str = FERRYMAN.name
    of_time: bool = False

    def verdict(self, parts: Sequence[Part]) -> Verdict:
        promised = f"{'≤' if self.of_time else '≥'} {self.bound:g}x"
        ours = _series(parts, self.part, self.scenario, self.ours)
        theirs = _series(parts, self.part, self.other_scenario or self.scenario, self.other)
        if ours is None or theirs is None:
            return Verdict(self.title, promised)
        value = self._shown(ours.times(theirs))
        rounds = [self._shown(each) for each in ours.times_by_round(theirs)]
        return Verdict(
            self.title,
            promised,
            held=value <= self.bound if self.of_time else value >= self.bound,
            measured=f"{value:.2f}x",
            by_round=_middle_and_spread(rounds),
            by_processor_time=_of_processor_time(ours, theirs),
        )

    def _shown(self, times_as_good: float) -> float:
        return 1 / times_as_good if self.of_time else times_as_good


@dataclass(frozen=True, slots=True)
class Limit:
    """Ferryman takes no more than so much: of a fact, by its median, or of the values, by the longest."""

    title: str
    part: str
    scenario: str
    most: float
    unit: str = ""
    fact: str = ""

    def verdict(self, parts: Sequence[Part]) -> Verdict:
        promised = f"≤ {self.most:g}{self.unit}"
        found = _series(parts, self.part, self.scenario, FERRYMAN.name)
        if found is None:
            return Verdict(self.title, promised)
        value = found.fact(self.fact) if self.fact else max(found.values)
        if value is None:
            return Verdict(self.title, promised)
        return Verdict(self.title, promised, held=value <= self.most, measured=f"{round(value, 2):g}{self.unit}")


def verdicts(parts: Sequence[Part]) -> list[Verdict]:
    """What became of each promise, in the order of the design."""
    return [promise.verdict(parts) for promise in _promises()]


def _promises() -> list[Ratio | Limit]:
    from benchmarks.parts import (  # noqa: PLC0415 - they import products too
        adding,
        drain,
        growth,
        latency,
        named_queue,
        recovery,
        standing,
    )

    best, default = drain.SCENARIOS[BATCHED, 1], drain.SCENARIOS[DEFAULT, 1]
    small, large = growth.PROMISED
    return [
        # uvloop is one of the best settings, as it is for the peers in Python.
        *(
            Ratio(title, "drain", best, other.name, bound, ours=FERRYMAN_UVLOOP.name)
            for title, other, bound in (
                ("drain, best settings, against Node's best", NODE, 2.0),
                ("the same against raw SQL, 1 connection", RAW, 0.6),
                ("the same against the Rust crate's best", RUST, 1.0),
                ("the same against pgqueuer's best", PGQUEUER, 5.0),
            )
        ),
        Ratio("drain, default settings, against Node's defaults", "drain", default, NODE.name, 8.0),
        Ratio("50 jobs in one named queue, against Node's defaults", "queue", named_queue.SCENARIO, NODE.name, 20.0),
        Ratio("add_job one by one, against Node", "adding", adding.SINGLE, NODE.name, 2.0),
        Ratio("add_jobs of 1,000, against Node", "adding", adding.BULK, NODE.name, 1.5),
        *(
            Ratio(
                f"latency when idle, p{percentile}, to Node's",
                "latency",
                latency.title(latency.IDLE, percentile),
                NODE.name,
                bound,
                of_time=True,
            )
            for percentile, bound in ((50, 0.9), (99, 0.7))
        ),
        Ratio("drain at 1 M backlog, to 10 k", "growth", large, FERRYMAN.name, 0.9, other_scenario=small),
        Limit("connections of an idle worker", "standing", standing.IDLE, 3, fact="connections"),
        Limit("transactions of an idle worker", "standing", standing.IDLE, 1, "/s", fact="transactions"),
        Limit("SIGKILL to second start, the longest", "recovery", recovery.SCENARIO, 15, " s"),
    ]


def _series(parts: Sequence[Part], part: str, scenario: str, contender: str) -> Series | None:
    found = next((one.find(scenario, contender) for one in parts if one.name == part), None)
    return found if found and found.values else None


def _middle_and_spread(ratios: list[float]) -> str:
    if len(ratios) < 2:
        return ""
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _of_processor_time(ours: Series, theirs: Series) -> str:
    """By what client and server spent on a job together: a busy machine changes that much less."""
    mine, other = ours.processor_time, theirs.processor_time
    return f"{other / mine:.2f}x" if mine and other else ""
