"""How a sweep works this time, and how far it has come: the values that `sweeping` works with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferryman.hooks import JobRecovery
from ferryman.recovery.crashes import CrashRules
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions, SweepStaleWorkersResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.recovery.config import RecoverySettings
    from ferryman.recovery.observer import Dead
    from ferryman.recovery.sweep_results import Recovery, UnregisteredWorker
    from ferryman.traces import Tracing

BATCH = 500
"""Jobs in a transaction."""
HOOK_BATCH = 50
"""Jobs in a transaction if hooks are asked, so that slow hooks do not hold up all of them."""
HOOK_SECONDS = 10.0
"""How long a hook may take to decide about one job."""
PATIENCE_SECONDS = 30.0
"""After this long, no more jobs of a batch are asked about: the decided ones are recovered, the rest waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The settings and the parts of one sweep.

    schema_name: the schema to sweep
    settings: thresholds and policies
    recovered_by: the id of the worker that sweeps, or a name for the program that does
    hooks: interceptors decide about the jobs, observers are notified of them
    options: what differs from the settings this time
    observed: the dead workers that a worker has observed; None: the age of the heartbeats decides who is suspect
    finds_orphans: whether to look for locks of workers that are not registered, which reads the whole jobs table
    batch: jobs in a transaction
    hook_seconds: how long a hook may take to decide about one job
    patience_seconds: after this long, hooks are asked about no more jobs of a batch; the next sweep asks about the rest
    clock: the clock by which silent workers are watched
    tracing: gets spans of the attempts that died
    """

    schema_name: str
    settings: RecoverySettings
    recovered_by: str
    hooks: HookRegistry
    options: SweepStaleWorkersOptions = field(default_factory=SweepStaleWorkersOptions)
    observed: Sequence[Dead] | None = None
    finds_orphans: bool = True
    batch: int = BATCH
    hook_seconds: float = HOOK_SECONDS
    patience_seconds: float = PATIENCE_SECONDS
    clock: Callable[[], float] = time.monotonic
    tracing: Tracing | None = None

    @property
    def asks(self) -> bool:
        """True if hooks decide about each job."""
        return self.hooks.wants(JobRecovery)

    @property
    def batch_size(self) -> int:
        """How many jobs are recovered in one transaction."""
        return min(self.batch, HOOK_BATCH) if self.asks and not self.options.dry_run else self.batch

    @property
    def is_by_hand(self) -> bool:
        """True if only the age of the heartbeats shows which workers may be dead."""
        return self.observed is None and self.options.worker_ids is None

    @property
    def threshold(self) -> float:
        """Seconds of silence after which a worker is dead."""
        return (self.options.sweep_threshold or self.settings.sweep_threshold).total_seconds()

    @property
    def unregistered_timeout(self) -> float | None:
        """Seconds without a new claim after which a worker that never registered is dead; None: never."""
        given = self.options.unregistered_lock_timeout or self.settings.unregistered_lock_timeout
        return None if given is None else given.total_seconds()

    @property
    def rules(self) -> CrashRules:
        """The settings about crashes, with the options of this sweep."""
        given, settings = self.options.recovery_delay, self.settings
        return CrashRules(
            recovery_delay=(settings.recovery_delay if given is None else given).total_seconds(),
            on_crash=settings.on_crash,
            max_crashes=settings.max_crashes,
            crash_window=settings.crash_window.total_seconds(),
            recover_claimed=settings.recover_claimed,
            recover_running=settings.recover_running,
        )


@dataclass(slots=True)
class SweepProgress:
    """The progress of a sweep so far, and the events to report."""

    events: list[Observer] = field(default_factory=list)
    unregistered: Sequence[UnregisteredWorker] = ()
    recoveries: list[Recovery] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)
    """Jobs that hooks left locked, and their workers."""
    unreadable: list[int] = field(default_factory=list)
    dead_worker_ids: tuple[str, ...] = ()
    after: int = 0
    """The largest job id that was handled."""
    was_overtaken: bool = False
    """True if another sweep took the lock between two batches."""

    def result(self) -> SweepStaleWorkersResult:
        """The result that the caller gets."""
        return SweepStaleWorkersResult(
            worker_ids=self.dead_worker_ids,
            recovered_count=len(self.recoveries),
            recoveries=tuple(self.recoveries),
            skipped_job_ids=tuple(self.skipped),
            unreadable_job_ids=tuple(self.unreadable),
            unregistered=tuple(self.unregistered),
            is_already_running=self.was_overtaken,
        )
