"""Options and results of sweeps, and the records of recovery that clients read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.errors import InvalidJobError
from ferryman.jobs import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStaleWorkersOptions:
    """How one sweep differs from the config.

    sweep_threshold: replaces the config's; not compared with the heartbeat interval, so choose it with care
    recovery_delay: replaces the config's
    unregistered_lock_timeout: replaces the config's
    dry_run: report which workers are dead and what would happen to their jobs; change nothing
    worker_ids: sweep exactly these workers, at once, even if they still send heartbeats. If one is alive, it continues
        to run its jobs while the next worker runs them too.
    """

    sweep_threshold: timedelta | None = None
    recovery_delay: timedelta | None = None
    unregistered_lock_timeout: timedelta | None = None
    dry_run: bool = False
    worker_ids: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("sweep_threshold", "positive"),
            ("recovery_delay", "0 or more"),
            ("unregistered_lock_timeout", "positive"),
        ):
            _check_span(name, getattr(self, name), least)
        if self.worker_ids is not None:
            object.__setattr__(self, "worker_ids", check_worker_ids(self.worker_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A job that was recovered from a dead worker.

    attempt: the count of attempts while that worker held it
    started: whether its handler had started; None if that cannot be known
    decision: "requeue", "retry", "fail", "poisoned" (too many crashes), "given back" (it never ran), "superseded" (its
        key was reused while it ran), "reschedule" or "backoff" (a hook decided so)
    reason: why the worker was declared dead: "session lost", "silent", "unregistered" or "by hand"
    """

    job_id: int
    task_identifier: str
    worker_id: str
    attempt: int
    started: bool | None
    decision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisteredWorker:
    """A holder of jobs that never registered, such as a Node pool or a worker without recovery.

    job_ids: the first ten jobs that it holds, the oldest lock first
    jobs: how many jobs it holds
    seconds: how long ago it last claimed a job; None: its newest lock has no usable time
    """

    worker_id: str
    jobs: int
    job_ids: tuple[int, ...]
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStaleWorkersResult:
    """The result of a sweep.

    worker_ids: the dead workers
    recovered_count: how many jobs were recovered; 0 in a dry run
    recoveries: what happened to each job; in a dry run, what would happen
    skipped_job_ids: jobs of dead workers that `JobRecovery` hooks left locked
    unreadable_job_ids: jobs of dead workers that stay locked because PostgreSQL rejects a value of theirs
    unregistered: workers that never registered, hold jobs, and have claimed nothing for longer than the threshold;
        they were left alone
    is_already_running: another sweep was running, so this one did nothing, or stopped early
    """

    worker_ids: tuple[str, ...] = ()
    recovered_count: int = 0
    recoveries: tuple[Recovery, ...] = ()
    skipped_job_ids: tuple[int, ...] = ()
    unreadable_job_ids: tuple[int, ...] = ()
    unregistered: tuple[UnregisteredWorker, ...] = ()
    is_already_running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveWorker:
    """A registered worker. It is stale if its last heartbeat is older than the threshold that was asked about.

    is_session_lost: True if its session lock is gone: its process is dead, or it lost its connection a moment ago.
        Behind a transaction pooler, workers hold no session lock, and this is False.
    """

    worker_id: str
    is_stale: bool
    is_session_lost: bool
    started_at: datetime
    last_heartbeat_at: datetime
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorker:
    """A worker that was declared dead."""

    worker_id: str
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    noticed_at: datetime
    reason: str
    metadata: Mapping[str, Any]
    recovered_jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The state of a worker when it sent a heartbeat.

    slots: how many jobs it can run at the same time
    done, failed: attempts that have succeeded and failed since it started
    rss_bytes: the memory of its process; None where that cannot be read
    loop_lag: how long its event loop took to answer, or has not answered yet; None in its first state
    """

    worker_id: str
    taken_at: datetime
    slots: int
    running: int
    done: int
    failed: int
    rss_bytes: int | None
    loop_lag: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A crash of a job: its worker died, or its own child process did; see `Recovery`.

    reason: as in `Recovery`, or "child process died"
    """

    noticed_at: datetime
    worker_id: str
    recovered_by: str
    attempt: int
    started: bool | None
    decision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many records of each kind retention deleted."""

    lost_workers: int = 0
    crashes: int = 0
    start_marks: int = 0
    worker_states: int = 0
    failed_jobs: int = 0


def check_worker_ids(worker_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids, each once. Raises `InvalidJobError` for anything but a list of ids."""
    if isinstance(worker_ids, str):
        raise InvalidJobError(f"worker_ids must be a list of ids; got the single string {worker_ids!r}")
    ids = tuple(dict.fromkeys(worker_ids))
    for worker_id in ids:
        if not isinstance(worker_id, str):
            raise InvalidJobError(f"a worker id must be a string, not {type(worker_id).__name__}")
        check_storable("a worker id", worker_id)
    return ids


def _check_span(name: str, span: object, least: str) -> None:
    if span is None:
        return
    if not isinstance(span, timedelta):
        raise InvalidJobError(f"{name} must be a timedelta, not {type(span).__name__}")
    if span < timedelta() or (span == timedelta() and least == "positive"):
        raise InvalidJobError(f"{name} must be {least}; got {span.total_seconds():g} s")
