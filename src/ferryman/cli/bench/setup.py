"""What a run measures: one frozen object, which is also what the report says about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman import WorkerOptions
from ferryman.worker import LocalQueueConfig

if TYPE_CHECKING:
    from ferryman.hooks import HookRegistry

FEWEST_JOBS = 100
BATCH = 1000
"""How many jobs go into one call when they are added in bulk."""
MOST_ONE_BY_ONE = 1000
"""Added one by one, jobs show their rate soon, and a far server would take minutes for more."""

GRACE = timedelta(seconds=1)
"""Jobs that still run when a worker shall end belong to a run that has failed, and nobody needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a run.

    queue_size: of the drain with a local queue; 0 leaves that drain out
    batch_delay_ms: how long the worker gathers completions before it writes them
    job_ms: how long each job waits, as if for an answer from elsewhere
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
        """How many jobs of a round are added one by one; the rest is added in bulk."""
        return min(self.jobs // 2, MOST_ONE_BY_ONE)

    @property
    def least_seconds(self) -> float:
        """What the jobs alone will take, however fast everything else is."""
        drains = 2 if self.queue_size else 1
        return drains * self.rounds * self.jobs * self.job_ms / 1000 / self.concurrency

    def options(self, hooks: HookRegistry, *, has_local_queue: bool) -> WorkerOptions:
        """How the worker runs: as under `ferryman worker`, signals aside, which are the command's own."""
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
