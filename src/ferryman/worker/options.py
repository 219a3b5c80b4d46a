"""The options of a worker: frozen objects, checked whole when they are made."""

from __future__ import annotations

import functools
import os
from dataclasses import InitVar, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from ferryman.cron.due_minutes import crontabs_from
from ferryman.errors import ConfigurationError, CrontabError
from ferryman.hooks import HookRegistry
from ferryman.recovery.config import WorkerRecoveryConfig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from ferryman.cron.crontab import Crontab

    ForbiddenFlags: TypeAlias = Sequence[str] | Callable[[], Sequence[str] | Awaitable[Sequence[str]]]


T = TypeVar("T")

LARGEST_SIZE = 2**31 - 1
"""The largest size of a local queue, in jobs."""
LEAST_MEMORY = 16 * 1024 * 1024
"""Python itself uses this much memory, so a smaller value must be in another unit."""

RECYCLING_LIMITS = {"max_jobs": 1, "child_max_jobs": 1, "max_memory": LEAST_MEMORY, "child_max_memory": LEAST_MEMORY}
DEFAULT_RECOVERY = WorkerRecoveryConfig(enabled=True, recovery_delay=timedelta())
"""For workers that are given no config. A job that kills its workers is stopped by its crashes, not by a delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShutdownConfig:
    """How a worker shuts down.

    listen_os_shutdown_signals: True if SIGTERM, SIGINT, SIGHUP and SIGUSR2 shut it down
    shutdown_signal: your own signal to wait for: a function that returns an awaitable, called when the worker
        starts. `asyncio.Event().wait` is one
    grace_period: how long running jobs may continue; a second signal cancels them at once
    interrupted_job_retry_delay: how long a job that was interrupted waits for its next run; its attempt does not count
    """

    listen_os_shutdown_signals: bool = True
    shutdown_signal: Callable[[], Awaitable[object]] | None = field(default=None, repr=False)
    grace_period: timedelta = timedelta(seconds=5)
    interrupted_job_retry_delay: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchDelayConfig:
    """A pause of the local queue after a fetch that found few jobs, so that many workers do not ask for every job.

    duration: how long, at most; each pause takes between half of it and all of it, so that workers spread out
    threshold: no pause follows a fetch of more jobs than this, or one that filled the queue
    max_abort_threshold: a random number of notifications, up to this one, ends the pause early (default: five times the
        size of the queue; `sys.maxsize`: nothing ends it early)
    """

    duration: timedelta = timedelta(milliseconds=100)
    threshold: int = 0
    max_abort_threshold: int | None = None

    def __post_init__(self) -> None:
        _refuse(
            [
                *_unless(self.duration > timedelta(), "refetch_delay.duration must be greater than 0"),
                *_unless(self.threshold >= 0, "refetch_delay.threshold cannot be negative"),
                *_unless(
                    self.max_abort_threshold is None or self.max_abort_threshold > 0,
                    "refetch_delay.max_abort_threshold must be greater than 0",
                ),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueConfig:
    """How many jobs a worker claims ahead of its free slots, and for how long it keeps them.

    size: how many claimed jobs may wait for a slot
    ttl: how long they may wait; jobs without a slot by then are given back as if they had never been claimed
    refetch_delay: a pause after a fetch that found few jobs (default: none)
    queue_count: a worker has one local queue, which serves all slots and holds `size` jobs this many times over
    """

    size: int = 100
    ttl: timedelta = timedelta(minutes=5)
    refetch_delay: RefetchDelayConfig | None = None
    queue_count: int = 1

    def __post_init__(self) -> None:
        _refuse(
            [
                *_unless(self.size > 0, "size must be greater than 0"),
                *_unless(self.size <= LARGEST_SIZE, f"size ({self.size}) must not exceed {LARGEST_SIZE}"),
                *_unless(self.queue_count > 0, "queue_count must be greater than 0"),
                *_unless(self.ttl > timedelta(), "ttl must be greater than 0"),
            ]
        )

    def problems(self, poll_interval: timedelta) -> Sequence[str]:
        """The reasons why it cannot work in a worker with this poll interval."""
        if self.refetch_delay is None or self.refetch_delay.duration <= poll_interval:
            return []
        duration, poll = (f"{each.total_seconds():g} s" for each in (self.refetch_delay.duration, poll_interval))
        return [f"local_queue.refetch_delay.duration ({duration}) must not be larger than poll_interval ({poll})"]


def _refusing_unknown(kind: type[T]) -> type[T]:
    """Let the class say which option is meant, instead of Python's `unexpected keyword argument`."""
    made: Any = kind.__init__
    known: Mapping[str, object] = getattr(kind, "__dataclass_fields__")  # noqa: B009 - init-only options are there too

    @functools.wraps(made)
    def init(self: T, **given: Any) -> None:
        if not known.keys() >= given.keys():
            from ferryman.worker.option_names import refuse_unknown_options  # noqa: PLC0415 - only for a mistake

            refuse_unknown_options(given, known)
        made(self, **given)

    setattr(kind, "__init__", init)  # noqa: B010 - type checkers shall see the one of the dataclass
    return kind


@_refusing_unknown
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves.

    concurrency: how many jobs run at once (default: the number of processors)
    poll_interval: how often to look for jobs when no notification arrives; a safety net
    use_notification_delivery: False never listens for notifications, and finds jobs by polling alone
    use_local_time: take this machine's clock instead of the database's
    tasks: identifiers of the tasks that this worker runs; it leaves other jobs alone (default: all tasks)
    not_tasks: identifiers of tasks that it does not run
    forbidden_flags: this worker leaves jobs with any of these alone; a list, or a function asked before each claim
    durable_claims: False starts jobs before their claim is on the server's disk. They start sooner, and run twice if
        the server crashes at that moment; jobs of named queues never do
    max_connections: the most database connections that its pool opens; listening, heartbeats, blocking handlers and
        child processes have others
    complete_job_batch_delay, fail_job_batch_delay: how long to gather settlements before they are written. By
        default, settlements that arrive during one write go with the next
    local_queue: claim jobs ahead of the free slots; see docs/local-queue.md (default: claim what can start at once)
    crontabs: schedules, as `Crontab` values or crontab text, on top of those of the app; see docs/cron.md
    recovery: heartbeats, and recovery of the jobs of dead workers; see docs/recovery.md (default: on, and with a
        `recovery_delay` of 0, where a config of your own has 30 seconds).
        `WorkerRecoveryConfig()` turns it off
    heartbeat_interval, sweep_interval, sweep_threshold, recovery_delay: single settings of `recovery`, for short; the
        others have the defaults of `WorkerRecoveryConfig`
    max_jobs: how many jobs to run before the worker ends, so that a new process can take its place; see docs/worker.md
    max_memory: how many bytes of memory the process may use before the worker ends
    child_max_jobs, child_max_memory: the same for each child process of tasks with `run_in="process"`; it is replaced
    log_jobs: log each job that completes as INFO instead of DEBUG, and the traceback of each attempt that fails
    extensions: values that handlers find in their context
    hooks: your handlers of events; see docs/hooks.md
    blocked_loop_threshold: how long a handler may block the event loop before the log names it; None never looks
    shutdown: how the worker shuts down
    listen_os_shutdown_signals, shutdown_signal, shutdown_grace_period, shutdown_interrupted_job_retry_delay: single
        settings of `shutdown`, for short
    """

    concurrency: int = field(default_factory=lambda: os.cpu_count() or 1)
    poll_interval: timedelta = timedelta(seconds=2)
    use_notification_delivery: bool = True
    use_local_time: bool = False
    tasks: Sequence[str] | None = None
    not_tasks: Sequence[str] = ()
    forbidden_flags: ForbiddenFlags = ()
    durable_claims: bool = True
    max_connections: int = 10
    complete_job_batch_delay: timedelta | None = None
    fail_job_batch_delay: timedelta | None = None
    local_queue: LocalQueueConfig | None = None
    crontabs: Sequence[Crontab | str] | Crontab | str = ()
    recovery: WorkerRecoveryConfig = field(default_factory=lambda: DEFAULT_RECOVERY)
    max_jobs: int | None = None
    max_memory: int | None = None
    child_max_jobs: int | None = None
    child_max_memory: int | None = None
    log_jobs: bool = False
    extensions: Mapping[Any, Any] = field(default_factory=dict, repr=False)
    hooks: HookRegistry = field(default_factory=HookRegistry, repr=False)
    blocked_loop_threshold: timedelta | None = timedelta(seconds=1)
    shutdown: WorkerShutdownConfig = field(default_factory=WorkerShutdownConfig)
    listen_os_shutdown_signals: InitVar[bool | None] = None
    shutdown_signal: InitVar[Callable[[], Awaitable[object]] | None] = None
    shutdown_grace_period: InitVar[timedelta | None] = None
    shutdown_interrupted_job_retry_delay: InitVar[timedelta | None] = None
    heartbeat_interval: InitVar[timedelta | None] = None
    sweep_interval: InitVar[timedelta | None] = None
    sweep_threshold: InitVar[timedelta | None] = None
    recovery_delay: InitVar[timedelta | None] = None

    def __post_init__(  # noqa: PLR0917 - dataclasses pass them by position
        self,
        listen_os_shutdown_signals: bool | None,
        shutdown_signal: Callable[[], Awaitable[object]] | None,
        shutdown_grace_period: timedelta | None,
        shutdown_interrupted_job_retry_delay: timedelta | None,
        heartbeat_interval: timedelta | None,
        sweep_interval: timedelta | None,
        sweep_threshold: timedelta | None,
        recovery_delay: timedelta | None,
    ) -> None:
        shutdown = {
            "listen_os_shutdown_signals": listen_os_shutdown_signals,
            "shutdown_signal": shutdown_signal,
            "grace_period": shutdown_grace_period,
            "interrupted_job_retry_delay": shutdown_interrupted_job_retry_delay,
        }
        self._override("shutdown", lambda given: replace(self.shutdown, **given), shutdown)
        recovery = {
            "heartbeat_interval": heartbeat_interval,
            "sweep_interval": sweep_interval,
            "sweep_threshold": sweep_threshold,
            "recovery_delay": recovery_delay,
        }
        # Single settings are a config of the user's own, with a config's defaults.
        chosen = WorkerRecoveryConfig() if self.recovery is DEFAULT_RECOVERY else self.recovery
        self._override("recovery", lambda given: chosen.replaced(**given), recovery)
        problems = [*self._problems()]
        if problems:
            raise ConfigurationError("these worker options cannot work: " + "; ".join(problems))

    def _override(self, name: str, changed: Callable[[dict[str, Any]], object], given: Mapping[str, Any]) -> None:
        chosen = {key: value for key, value in given.items() if value is not None}
        if chosen:
            object.__setattr__(self, name, changed(chosen))

    def _problems_of_limits(self) -> list[str]:
        limits = ((name, getattr(self, name), least) for name, least in RECYCLING_LIMITS.items())
        return [
            f"{name} must be at least {least:,}; got {limit!r}"
            for name, limit, least in limits
            if limit is not None and limit < least
        ]

    def _problems(self) -> list[str]:
        problems = self._problems_of_limits()
        if not isinstance(self.concurrency, int) or self.concurrency < 1:
            problems.append(f"concurrency must be greater than 0; got {self.concurrency!r}")
        if self.max_connections < 1:
            problems.append(f"max_connections must be at least 1; got {self.max_connections!r}")
        for name, least in (
            ("poll_interval", timedelta(milliseconds=10)),
            ("complete_job_batch_delay", timedelta()),
            ("fail_job_batch_delay", timedelta()),
            ("blocked_loop_threshold", timedelta(milliseconds=10)),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                problems.append(f"{name} must be at least {least.total_seconds()} s; got {value.total_seconds()} s")
        problems.extend(
            f"shutdown.{name} cannot be negative"
            for name in ("grace_period", "interrupted_job_retry_delay")
            if getattr(self.shutdown, name) < timedelta()
        )
        if self.local_queue is not None:
            problems.extend(self.local_queue.problems(self.poll_interval))
        for check in (lambda: self.recovery.settings, lambda: crontabs_from(self.crontabs)):
            try:
                check()
            except (ConfigurationError, CrontabError) as error:
                problems.append(str(error))
        problems.extend(
            f"{name} must be a list of {things}, not a single string"
            for name, things in (("forbidden_flags", "flags"), ("tasks", "identifiers"), ("not_tasks", "identifiers"))
            if isinstance(getattr(self, name), str)
        )
        return problems


class WorkerChoices(TypedDict, total=False):
    """The keywords of `Worker`, for type checkers: those of `WorkerOptions`, which describes them."""

    concurrency: int
    poll_interval: timedelta
    use_notification_delivery: bool
    use_local_time: bool
    tasks: Sequence[str] | None
    not_tasks: Sequence[str]
    forbidden_flags: ForbiddenFlags
    durable_claims: bool
    max_connections: int
    complete_job_batch_delay: timedelta | None
    fail_job_batch_delay: timedelta | None
    local_queue: LocalQueueConfig | None
    crontabs: Sequence[Crontab | str] | Crontab | str
    recovery: WorkerRecoveryConfig
    max_jobs: int | None
    max_memory: int | None
    child_max_jobs: int | None
    child_max_memory: int | None
    log_jobs: bool
    extensions: Mapping[Any, Any]
    hooks: HookRegistry
    blocked_loop_threshold: timedelta | None
    shutdown: WorkerShutdownConfig
    listen_os_shutdown_signals: bool | None
    shutdown_signal: Callable[[], Awaitable[object]] | None
    shutdown_grace_period: timedelta | None
    shutdown_interrupted_job_retry_delay: timedelta | None
    heartbeat_interval: timedelta | None
    sweep_interval: timedelta | None
    sweep_threshold: timedelta | None
    recovery_delay: timedelta | None


def _unless(is_fine: bool, problem: str) -> Sequence[str]:
    return [] if is_fine else [f"local_queue.{problem}"]


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise ConfigurationError("; ".join(problems))
