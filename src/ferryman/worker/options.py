"""How a worker behaves: one frozen object, checked whole."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from ferryman.worker.local_queue.config import LocalQueueConfig

    ForbiddenFlags: TypeAlias = Sequence[str] | Callable[[], Sequence[str] | Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShutdownConfig:
    """How a worker ends.

    listen_os_shutdown_signals: whether SIGTERM, SIGINT, SIGHUP and SIGUSR2 end it
    grace_period: how long running jobs may go on; a second signal ends them at once
    interrupted_job_retry_delay: how long a job that was interrupted waits for its next run; its attempt does not count
    """

    listen_os_shutdown_signals: bool = True
    grace_period: timedelta = timedelta(seconds=5)
    interrupted_job_retry_delay: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves.

    concurrency: how many jobs run at once (default: the number of processors)
    poll_interval: how often to look for jobs when nothing is heard; new jobs are announced, so this is a safety net
    use_notification_delivery: False never listens for announcements, and finds jobs by polling alone
    use_local_time: take this machine's clock instead of the database's
    forbidden_flags: jobs with any of these are left to others; a list, or a function that is asked before each claim
    max_connections: how many database connections the worker may use, the listening one aside
    complete_job_batch_delay, fail_job_batch_delay: how long to gather settlements before they are written. Without,
        whatever gathers while one write is under way goes with the next
    local_queue: claim jobs ahead of the free slots; see docs/local-queue.md (default: claim what can start at once)
    extensions: values that handlers find in their context
    hooks: what to tell whom; see docs/hooks.md
    shutdown: how it ends
    """

    concurrency: int = field(default_factory=lambda: os.cpu_count() or 1)
    poll_interval: timedelta = timedelta(seconds=2)
    use_notification_delivery: bool = True
    use_local_time: bool = False
    forbidden_flags: ForbiddenFlags = ()
    max_connections: int = 10
    complete_job_batch_delay: timedelta | None = None
    fail_job_batch_delay: timedelta | None = None
    local_queue: LocalQueueConfig | None = None
    extensions: Mapping[Any, Any] = field(default_factory=dict, repr=False)
    hooks: HookRegistry = field(default_factory=HookRegistry, repr=False)
    shutdown: WorkerShutdownConfig = field(default_factory=WorkerShutdownConfig)

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise ConfigurationError("these worker options cannot work: " + "; ".join(problems))

    def _problems(self) -> list[str]:
        problems = []
        if not isinstance(self.concurrency, int) or self.concurrency < 1:
            problems.append(f"concurrency must be greater than 0; got {self.concurrency!r}")
        if self.max_connections < 1:
            problems.append(f"max_connections must be at least 1; got {self.max_connections!r}")
        for name, least in (
            ("poll_interval", timedelta(milliseconds=10)),
            ("complete_job_batch_delay", timedelta()),
            ("fail_job_batch_delay", timedelta()),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                problems.append(f"{name} must be at least {least.total_seconds()} s; got {value.total_seconds()} s")
        if self.shutdown.grace_period < timedelta():
            problems.append("shutdown.grace_period cannot be negative")
        if self.local_queue is not None:
            problems.extend(self.local_queue.problems(self.poll_interval))
        if isinstance(self.forbidden_flags, str):
            problems.append("forbidden_flags must be a list of flags, not a single string")
        return problems
