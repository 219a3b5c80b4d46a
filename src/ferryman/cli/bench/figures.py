"""What a run has measured: plain values, from which the advice is made."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.cli.bench.setup import Setup


@dataclass(frozen=True, slots=True)
class Times:
    """How long something took that was done many times, in milliseconds."""

    p50: float
    p95: float
    p99: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Of at least two samples."""
        cuts = quantiles(seconds, n=100, method="inclusive")
        return cls(cuts[49] * 1000, cuts[94] * 1000, cuts[98] * 1000, len(seconds))


@dataclass(frozen=True, slots=True)
class Rate:
    """Jobs per second: the median of the rounds, the slowest and the fastest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, rates: Sequence[float]) -> Rate:
        """Of one rate for each round."""
        return cls(median(rates), min(rates), max(rates))


@dataclass(frozen=True, slots=True)
class Drain:
    """How fast a worker got through a backlog, and what this process paid for it.

    cpu_us: processor time per job, in microseconds
    cpu_share: processor time per time on the clock; 1.0 is one processor, fully used
    """

    rate: Rate
    cpu_us: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Server:
    """What the server told about itself.

    connections_allowed: for ordinary roles; of the database, if it has the lower limit
    connections_used: by others, before the run
    has_pooler: whether something such as PgBouncer answered in its place
    """

    version: str
    connections_allowed: int
    connections_used: int
    has_pooler: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process runs on. event_loop: the module that it comes from."""

    processors: int
    event_loop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that one run has measured."""

    setup: Setup
    server: Server
    machine: Machine
    round_trip: Times
    commit: Times
    """A small insert and its commit, the way there and back included."""
    add_one: Rate
    add_bulk: Rate
    direct: Drain
    local_queue: Drain | None
    latency: Times
    """From the call of `add_job` to the first line of the handler, with an idle worker."""
