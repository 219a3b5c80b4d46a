"""The events that hooks observe. Those about the end of a job fire once the database has stored it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ferryman.hooks.answers import FailureReason, LocalQueueMode, SettleOutcome, ShutdownReason
from ferryman.hooks.kinds import Observer
from ferryman.jobs import Job

if TYPE_CHECKING:
    from ferryman.client import Client
else:
    Client = Any  # hooks cannot import the client, which imports hooks; help() shows this


class CrontabEntry(Protocol):
    """A line of a crontab, as events show it."""

    @property
    def identifier(self) -> str:
        """The name of the line."""

    @property
    def task_identifier(self) -> str:
        """The task of the jobs that it adds."""


class WorkerInit(Observer, frozen=True, kw_only=True):
    """A worker was set up. It is not registered and has claimed nothing yet."""

    client: Client
    schema: str
    concurrency: int


class WorkerStart(Observer, frozen=True, kw_only=True):
    """A worker is about to claim its first jobs."""

    client: Client
    worker_id: str
    extensions: Mapping[Any, Any] = msgspec.field(default_factory=lambda: MappingProxyType({}))

    def __repr__(self) -> str:
        return f"WorkerStart(client={self.client!r}, worker_id={self.worker_id!r})"


class WorkerShutdown(Observer, frozen=True, kw_only=True):
    """A worker has written its outcomes, or has run out of time to write them, and is about to exit."""

    client: Client
    worker_id: str
    reason: ShutdownReason


class JobFetch(Observer, frozen=True, kw_only=True):
    """A claimed job got a slot."""

    job: Job
    worker_id: str


class JobStart(Observer, frozen=True, kw_only=True):
    """The task is about to be called: no `BeforeJobRun` hook stopped it."""

    job: Job
    worker_id: str


class JobComplete(Observer, frozen=True, kw_only=True):
    """A job was completed, and its row deleted."""

    job: Job
    worker_id: str
    duration: timedelta


class JobFail(Observer, frozen=True, kw_only=True):
    """An attempt failed, and the job waits for the next one."""

    job: Job
    worker_id: str
    error: str
    will_retry: bool


class JobPermanentlyFail(Observer, frozen=True, kw_only=True):
    """A job failed for good. `JobFail` does not fire for it."""

    job: Job
    worker_id: str
    error: str


class JobInterrupted(Observer, frozen=True, kw_only=True):
    """A job was interrupted and given back, at a shutdown or in a sweep."""

    job: Job
    worker_id: str
    reason: FailureReason


class SettleRefused(Observer, frozen=True, kw_only=True):
    """The outcome of a job was refused, because this worker no longer owned the job."""

    job_id: int
    worker_id: str
    outcome: SettleOutcome


class WorkerRecovered(Observer, frozen=True, kw_only=True):
    """A sweep found dead workers and recovered their jobs."""

    worker_id: str
    dead_worker_ids: Sequence[str]
    jobs_recovered: int


class CronTick(Observer, frozen=True, kw_only=True):
    """A minute has begun, and its crontabs are about to add their jobs."""

    timestamp: datetime
    crontabs: Sequence[CrontabEntry]


class CronJobScheduled(Observer, frozen=True, kw_only=True):
    """A crontab added a job."""

    crontab: CrontabEntry
    scheduled_at: datetime


class LocalQueueInit(Observer, frozen=True, kw_only=True):
    """A local queue has started."""

    worker_id: str


class LocalQueueSetMode(Observer, frozen=True, kw_only=True):
    """A local queue has changed its mode."""

    worker_id: str
    old_mode: LocalQueueMode
    new_mode: LocalQueueMode


class LocalQueueGetJobsComplete(Observer, frozen=True, kw_only=True):
    """A local queue has fetched jobs, or found none."""

    worker_id: str
    jobs_count: int


class LocalQueueReturnJobs(Observer, frozen=True, kw_only=True):
    """A local queue gave jobs back that it had fetched but not started."""

    worker_id: str
    jobs_count: int


class LocalQueueRefetchDelayStart(Observer, frozen=True, kw_only=True):
    """A local queue found few jobs and pauses before it looks again."""

    worker_id: str
    duration: timedelta
    threshold: int
    """A fetch of at most this many jobs starts the pause."""
    abort_threshold: int | None
    """This many new jobs end the pause early; None: none do."""


class LocalQueueRefetchDelayAbort(Observer, frozen=True, kw_only=True):
    """New jobs ended the pause of a local queue early."""

    worker_id: str
    count: int
    abort_threshold: int


class LocalQueueRefetchDelayExpired(Observer, frozen=True, kw_only=True):
    """The pause of a local queue is over."""

    worker_id: str
