"""The events that hooks watch. Those about jobs fire once the database holds what they tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from ferryman.hooks.kinds import Observer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from ferryman.client import Client
    from ferryman.hooks.results import FailureReason, LocalQueueMode, SettleOutcome, ShutdownReason
    from ferryman.jobs import Job


class CrontabEntry(Protocol):
    """A line of a crontab, as far as events tell of it."""

    @property
    def identifier(self) -> str:
        """The name of the line."""

    @property
    def task_identifier(self) -> str:
        """The task of the jobs that it adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInit(Observer):
    """A worker was set up; it has no id and claims nothing yet."""

    client: Client
    schema: str
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStart(Observer):
    """A worker is about to claim its first jobs."""

    client: Client
    worker_id: str
    extensions: Mapping[Any, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShutdown(Observer):
    """A worker has settled everything that it had claimed, and is about to end."""

    client: Client
    worker_id: str
    reason: ShutdownReason


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFetch(Observer):
    """A claimed job got a slot."""

    job: Job
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart(Observer):
    """No hook objected, and the task is about to be called."""

    job: Job
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobComplete(Observer):
    """A job is done, and its row is gone."""

    job: Job
    worker_id: str
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFail(Observer):
    """An attempt failed, and the job waits for the next one."""

    job: Job
    worker_id: str
    error: str
    will_retry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPermanentlyFail(Observer):
    """The last attempt failed. `JobFail` does not fire for it."""

    job: Job
    worker_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInterrupted(Observer):
    """A job that was cut short went back."""

    job: Job
    worker_id: str
    reason: FailureReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRefused(Observer):
    """A worker came too late: its claim was lost, and how its attempt ended was not recorded."""

    job_id: int
    worker_id: str
    outcome: SettleOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecovered(Observer):
    """A sweep found dead workers and gave their jobs back."""

    worker_id: str
    dead_worker_ids: Sequence[str]
    jobs_recovered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTick(Observer):
    """A minute began, and the crontabs are about to be looked at."""

    timestamp: datetime
    crontabs: Sequence[CrontabEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobScheduled(Observer):
    """A crontab added a job."""

    crontab: CrontabEntry
    scheduled_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueInit(Observer):
    """A local queue begins."""

    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueSetMode(Observer):
    """A local queue does something else from now on."""

    worker_id: str
    old_mode: LocalQueueMode
    new_mode: LocalQueueMode


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueGetJobsComplete(Observer):
    """A local queue has fetched jobs, or found that there are none."""

    worker_id: str
    jobs_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueReturnJobs(Observer):
    """A local queue gave jobs back that it had fetched but not started."""

    worker_id: str
    jobs_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueRefetchDelayStart(Observer):
    """A local queue found few jobs and pauses before it looks again."""

    worker_id: str
    duration: timedelta
    threshold: int
    """A fetch of at most this many jobs starts the pause."""
    abort_threshold: int | None
    """So many new jobs end the pause early; None if none do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueRefetchDelayAbort(Observer):
    """New jobs ended the pause of a local queue early."""

    worker_id: str
    count: int
    abort_threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueRefetchDelayExpired(Observer):
    """The pause of a local queue is over."""

    worker_id: str
