"""Calls that change jobs which are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.jobs import RescheduleJobOptions

_REMOVE_JOB = load_statement(__package__, "remove_job")
_COMPLETE_JOBS = load_statement(__package__, "complete_jobs")
_PERMANENTLY_FAIL_JOBS = load_statement(__package__, "permanently_fail_jobs")
_RESCHEDULE_JOBS = load_statement(__package__, "reschedule_jobs")
_RETRY_JOBS = load_statement(__package__, "retry_jobs")
_FORCE_UNLOCK_WORKERS = load_statement(__package__, "force_unlock_workers")
_WAKE_WORKERS = load_statement(__package__, "wake_workers")


def remove_job(job_key: str, *, using: Any) -> Call:
    """The row of the job that was removed comes back, if there was one."""
    return Call(_REMOVE_JOB, {"job_key": job_key}, using)


def complete_jobs(job_ids: Sequence[int], *, using: Any) -> Call:
    """The rows of the jobs that were deleted come back."""
    return Call(_COMPLETE_JOBS, {"job_ids": list(job_ids)}, using)


def permanently_fail_jobs(job_ids: Sequence[int], reason: str | None, *, using: Any) -> Call:
    """The rows of the jobs that were failed come back."""
    return Call(_PERMANENTLY_FAIL_JOBS, {"job_ids": list(job_ids), "reason": reason}, using)


def reschedule_jobs(job_ids: Sequence[int], options: RescheduleJobOptions, *, using: Any) -> Call:
    """The rows of the jobs that were changed come back."""
    parameters = {
        "job_ids": list(job_ids),
        "run_at": options.run_at,
        "priority": options.priority,
        "attempts": options.attempts,
        "max_attempts": options.max_attempts,
    }
    return Call(_RESCHEDULE_JOBS, parameters, using)


def retry_jobs(job_ids: Sequence[int] | None, task: str | None, *, using: Any) -> Call:
    """The rows of the failed jobs that run again come back."""
    return Call(_RETRY_JOBS, {"job_ids": None if job_ids is None else list(job_ids), "task": task}, using)


def force_unlock_workers(worker_ids: Sequence[str], *, using: Any) -> Call:
    """Nothing of interest comes back."""
    return Call(_FORCE_UNLOCK_WORKERS, {"worker_ids": list(worker_ids)}, using)


def wake_workers(count: int, *, using: Any) -> Call:
    """Nothing of interest comes back."""
    return Call(_WAKE_WORKERS, {"count": count}, using)
