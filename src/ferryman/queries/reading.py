"""Calls that only look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.jobs import JobState

_GET_JOB = load_statement(__package__, "get_job")
_LIST_JOBS = load_statement(__package__, "list_jobs")
_GET_PROGRESS = load_statement(__package__, "get_progress")
_COUNT_JOBS = load_statement(__package__, "count_jobs")


def get_job(job_id: int, *, using: Any) -> Call:
    """The row of the job comes back, if it exists."""
    return Call(_GET_JOB, {"job_id": job_id}, using)


def get_progress(job_id: int, *, using: Any) -> Call:
    """Fraction, message and time come back, if the job is running and its handler has told."""
    return Call(_GET_PROGRESS, {"job_id": job_id}, using)


def list_jobs(
    *,
    state: JobState | None,
    task: str | None,
    queue_name: str | None,
    job_key: str | None,
    flags: Sequence[str] | None,
    after: int,
    page_size: int,
    using: Any,
) -> Call:
    """Up to `page_size` rows come back, in the order of their ids."""
    parameters = {
        "state": None if state is None else state.value,
        "task": task,
        "queue_name": queue_name,
        "job_key": job_key,
        "flags": None if flags is None else list(flags),
        "after": after,
        "page_size": page_size,
    }
    return Call(_LIST_JOBS, parameters, using)


def count_jobs(*, using: Any) -> Call:
    """Pairs of state and number come back; states without jobs are left out."""
    return Call(_COUNT_JOBS, {}, using)
