"""The settings and the results of a run of `ferryman bench`: plain values, and how people read them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from statistics import median, quantiles
from typing import TYPE_CHECKING

from ferryman import WorkerOptions
from ferryman.worker import LocalQueueConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.hooks import HookRegistry

FEWEST_JOBS = 100
BATCH = 1000
"""The number of jobs in one call when they are added in bulk."""
MOST_ONE_BY_ONE = 1000
"""Enough jobs to show the rate of adding one by one. More would take minutes with a distant server."""

GRACE = timedelta(seconds=1)
"""Jobs that still run when a worker is stopped belong to a run that has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSetup:
    """The settings of a run.

    queue_size: the local queue of the second drain; 0 leaves that drain out
    batch_delay_ms: how long the worker collects completions before it writes them
    job_ms: how long each job waits, as if for the reply of a service
    """

    jobs: int = 10_000
    concurrency: int = field(default_factory=lambda: WorkerOptions().concurrency)
    queue_size: int = 500
    batch_delay_ms: float = 0.0
    job_ms: float = 0.0
    rounds: int = 3
    max_connections: int = 10

    @property
    def one_by_one(self) -> int:
        """The number of jobs of a round that are added one by one. The others are added in bulk."""
        return min(self.jobs // 2, MOST_ONE_BY_ONE)

    @property
    def least_seconds(self) -> float:
        """Seconds that the jobs alone take, however fast everything else is."""
        drains = 2 if self.queue_size else 1
        return drains * self.rounds * self.jobs * self.job_ms / 1000 / self.concurrency

    def options(self, hooks: HookRegistry, *, has_local_queue: bool) -> WorkerOptions:
        """Return the options of the worker: as under `ferryman worker`, but the command itself handles signals."""
        options = WorkerOptions(
            concurrency=self.concurrency,
            max_connections=self.max_connections,
            hooks=hooks,
            listen_os_shutdown_signals=False,
            shutdown_grace_period=GRACE,
        )
        if self.batch_delay_ms:
            options = replace(options, complete_job_batch_delay=timedelta(milliseconds=self.batch_delay_ms))
        if has_local_queue:
            options = replace(options, local_queue=LocalQueueConfig(size=self.queue_size))
        return options


@dataclass(frozen=True, slots=True)
class Times:
    """How long a repeated action took, in milliseconds."""

    p50: float
    p95: float
    p99: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Summarise at least two samples."""
        cuts = quantiles(seconds, n=100, method="inclusive")
        return cls(cuts[49] * 1000, cuts[94] * 1000, cuts[98] * 1000, len(seconds))


@dataclass(frozen=True, slots=True)
class Rate:
    """Jobs per second: the median, the slowest and the fastest round."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, rates: Sequence[float]) -> Rate:
        """Summarise one rate for each round."""
        return cls(median(rates), min(rates), max(rates))


@dataclass(frozen=True, slots=True)
class Drain:
    """How fast a worker drained a backlog, and the processor time it took.

    cpu_us: processor time per job, in microseconds
    cpu_share: processor time per time on the clock; 1.0 is one processor, fully used
    """

    rate: Rate
    cpu_us: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Server:
    """The facts that the server reports about itself.

    connections_allowed: for ordinary roles; the limit of the database if that leaves less room
    connections_used: by others, before the run
    has_pooler: True if a pooler such as PgBouncer answers in its place
    """

    version: str
    connections_allowed: int
    connections_used: int
    has_pooler: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the Python that this process runs on. event_loop: the module of its event loop"""

    processors: int
    event_loop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that one run has measured, and its setup."""

    setup: BenchSetup
    server: Server
    machine: Machine
    round_trip: Times
    commit: Times
    """A small insert and its commit, the round trip included."""
    add_one: Rate
    add_bulk: Rate
    direct: Drain
    local_queue: Drain | None
    latency: Times
    """From the call of `add_job` to the first line of the handler, with an idle worker."""


def milliseconds(number: float) -> str:
    """Format milliseconds with two digits or so: the measurement is no more precise."""
    if number < 1:
        return f"{number:.2f} ms"
    return f"{number:.1f} ms" if number < 100 else f"{number:,.0f} ms"  # noqa: PLR2004 - three digits


def per_second(rate: float) -> str:
    """Format a rate of jobs."""
    return f"{rate:,.0f} jobs/s" if rate >= 10 else f"{rate:.1f} jobs/s"  # noqa: PLR2004 - two digits


def cores(share: float) -> str:
    """Format a share of one processor."""
    return f"{share * 100:.0f} % of a processor"


def times(factor: float) -> str:
    """Format a factor."""
    return f"{factor:.1f} times"
