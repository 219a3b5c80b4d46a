"""Checks the speed ratios that the design promises against what was measured. Reports them, and never fails."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.products import BATCHED, DEFAULT, FERRYMAN, FERRYMAN_UVLOOP, NODE, PGQUEUER, RAW, RIVER, RUST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Part, Series


@dataclass(frozen=True, slots=True)
class Verdict:
    """A promise and whether it was kept, ready to be shown.

    held: None if it was not measured
    spread: the lowest and the highest ratio of a round
    by_medians, by_processor_time: the same ratio taken in other ways; empty where there is none
    """

    title: str
    promised: str
    held: bool | None = None
    measured: str = "not measured"
    spread: str = ""
    by_medians: str = ""
    by_processor_time: str = ""

    @property
    def mark(self) -> str:
        return {True: "✓", False: "✗", None: "?"}[self.held]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A promise that Ferryman is at least a number of times as good as another product. The median of rounds decides.

    other: by name; the best peer of this scenario if there is none
    ours: which of ours
    of_time: the bound is about times, ours to theirs: at most so many times as long
    """

    title: str
    part: str
    scenario: str
    other: str | None
    bound: float
    other_scenario: str = ""
    ours: str = FERRYMAN.name
    of_time: bool = False

    def verdict(self, parts: Sequence[Part]) -> Verdict:
        promised = f"{'≤' if self.of_time else '≥'} {self.bound:g}x"
        ours = _series(parts, self.part, self.scenario, self.ours)
        theirs = self._theirs(parts)
        if ours is None or theirs is None:
            return Verdict(self.title, promised)
        rounds = [self._shown(each) for each in ours.times_by_round(theirs)]
        value = statistics.median(rounds)
        return Verdict(
            self.title if self.other else f"{self.title}: {theirs.contender}",
            promised,
            held=value <= self.bound if self.of_time else value >= self.bound,
            measured=f"{value:.2f}x",
            spread=f"{min(rounds):.2f} to {max(rounds):.2f}" if len(rounds) > 1 else "",
            by_medians=f"{self._shown(ours.times(theirs)):.2f}x",
            by_processor_time=_of_processor_time(ours, theirs),
        )

    def _theirs(self, parts: Sequence[Part]) -> Series | None:
        scenario = self.other_scenario or self.scenario
        if self.other is not None:
            return _series(parts, self.part, scenario, self.other)
        peers = [
            one
            for part in parts
            if part.name == self.part
            for one in part.series
            if one.scenario == scenario and one.values and one.contender not in NO_PEERS
        ]
        return max(peers, key=lambda one: one.median if one.is_rate else -one.median, default=None)

    def _shown(self, times_as_good: float) -> float:
        return 1 / times_as_good if self.of_time else times_as_good


@dataclass(frozen=True, slots=True)
class Limit:
    """A promise that Ferryman takes at most this much: of a fact, by its median, or of the values, by the longest."""

    title: str
    part: str
    scenario: str
    most: float
    unit: str = ""
    fact: str = ""
    ours: str = FERRYMAN.name

    def verdict(self, parts: Sequence[Part]) -> Verdict:
        promised = f"≤ {self.most:g}{self.unit}"
        found = _series(parts, self.part, self.scenario, self.ours)
        if found is None:
            return Verdict(self.title, promised)
        value = found.fact(self.fact) if self.fact else max(found.values)
        if value is None:
            return Verdict(self.title, promised)
        return Verdict(self.title, promised, held=value <= self.most, measured=f"{round(value, 2):g}{self.unit}")


NO_PEERS = {FERRYMAN.name, FERRYMAN_UVLOOP.name, RAW.name}


def verdicts(parts: Sequence[Part]) -> list[Verdict]:
    """Return whether each promise was kept, in the order of the design."""
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
        tracing,
    )

    best, default = drain.title(BATCHED, 1), drain.title(DEFAULT, 1)
    small, large = growth.PROMISED
    # uvloop is one of the best settings, as it is for the peers in Python.
    our_best = FERRYMAN_UVLOOP.name
    return [
        *(
            Ratio(
                f"drain, best settings, against {whose}, {count}",
                "drain",
                drain.title(BATCHED, count),
                other,
                bound,
                ours=our_best,
            )
            for count in drain.PROCESSES
            for whose, other, bound in (
                ("Node's best", NODE.name, 1.6),
                ("raw SQL", RAW.name, 0.85 if count == 1 else 0.75),
                ("the Rust crate's best", RUST.name, 1.3),
            )
        ),
        Ratio("the same against River's best, 1", "drain", best, RIVER.name, 2.5, ours=our_best),
        Ratio("the same against pgqueuer's best, 1", "drain", best, PGQUEUER.name, 5.0, ours=our_best),
        *(
            Ratio(
                f"drain, default settings, against {whose}, {count}", "drain", drain.title(DEFAULT, count), other, bound
            )
            for count in drain.PROCESSES
            for whose, other, bound in (("raw SQL", RAW.name, 0.85), ("Node's defaults", NODE.name, 8.0))
        ),
        *(
            Ratio(
                f"drain, {settings}, {count} processes to 1",
                "drain",
                drain.title(mode, count),
                ours,
                bound,
                other_scenario=one,
                ours=ours,
            )
            for settings, mode, one, ours, bound in (
                ("default settings", DEFAULT, default, FERRYMAN.name, 1.0),
                ("best settings", BATCHED, best, our_best, 0.9),
            )
            for count in (4, 8)
        ),
        Ratio("50 jobs in one named queue, against Node's defaults", "queue", named_queue.SCENARIO, NODE.name, 40.0),
        Ratio("add_job one by one, against a raw INSERT", "adding", adding.SINGLE, RAW.name, 1.0),
        Ratio("add_job one by one, against the best peer", "adding", adding.SINGLE, None, 1.0),
        Ratio("add_jobs of 1,000, against a raw INSERT", "adding", adding.BULK, RAW.name, 1.0),
        Ratio("add_jobs of 1,000, against the best peer", "adding", adding.BULK, None, 1.0),
        *(
            Ratio(
                f"latency when idle, p{percentile}, to that of the best peer",
                "latency",
                latency.title(latency.IDLE, percentile),
                None,
                bound,
                of_time=True,
            )
            for percentile, bound in ((50, 0.9), (95, 0.9), (99, 1.0))
        ),
        Ratio("drain at 1 M backlog, to 10 k", "growth", large, FERRYMAN.name, 0.9, other_scenario=small),
        Ratio("process start to first job, to Node's", "standing", standing.START, NODE.name, 1.5, of_time=True),
        Limit("connections of an idle worker", "standing", standing.IDLE, 3, fact="connections"),
        Limit("transactions of an idle worker", "standing", standing.IDLE, 1, "/s", fact="transactions"),
        Limit("memory of an idle worker", "standing", standing.IDLE, 50, " MB"),
        Limit("SIGKILL to second start, the longest", "recovery", recovery.SCENARIO, 15, " s"),
        Ratio(
            "drain with tracing opted out, to OpenTelemetry not loaded",
            "tracing",
            tracing.SCENARIO,
            tracing.ABSENT,
            0.95,
            ours=tracing.OPTED_OUT,
        ),
        Limit(
            "tracing of a job, without the SDK's part",
            "tracing",
            tracing.COST,
            10,
            " µs",
            "own_us",
            ours=tracing.NO_SPANS,
        ),
    ]


def _series(parts: Sequence[Part], part: str, scenario: str, contender: str) -> Series | None:
    found = next((one.find(scenario, contender) for one in parts if one.name == part), None)
    return found if found and found.values else None


def _of_processor_time(ours: Series, theirs: Series) -> str:
    """Return the ratio by the processor time of client and server per job: a busy machine changes that much less."""
    mine, other = ours.processor_time, theirs.processor_time
    return f"{other / mine:.2f}x" if mine and other else ""
