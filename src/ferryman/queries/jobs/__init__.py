"""Statements that add, read, change and delete jobs, tasks and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.queries import query, script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ferryman.jobs import JobState, NewJob, RescheduleJobOptions
    from ferryman.queries import Parameters

LOCK_TASKS = script("ferryman.queries.jobs", "lock_tasks")
LOCK_QUEUES = script("ferryman.queries.jobs", "lock_queues")


@query(is_qualified=True)
def insert_job(job: NewJob, *, notify: bool) -> Parameters:
    """Add a job that has no key. Returns its id and the time; no row: ask again."""
    return {**_parameters(job), "notify": notify}


@query(is_qualified=True)
def insert_jobs(kinds: str, payloads: str, kind_of: str | None, *, notify: bool) -> Parameters:
    """Add jobs that have no keys. Returns one row: their ids in input order (or null: ask again), and the time."""
    return {"kinds": kinds, "payloads": payloads, "kind_of": kind_of, "notify": notify}


@query
def add_keyed_jobs(specs: str, delays: Sequence[float | None] | None, *, preserve_run_at: bool) -> Parameters:
    """Add jobs that have distinct keys. Returns rows of `parts/job_columns.sql`, in no particular order."""
    listed = None if delays is None else "{" + ",".join("null" if each is None else repr(each) for each in delays) + "}"
    return {"specs": specs, "delays": listed, "preserve_run_at": preserve_run_at}


@query
def dedupe_job(job: NewJob) -> Parameters:
    """Add a job unless another has its key. Returns one row of `parts/job_columns.sql`."""
    return {**_parameters(job), "job_key": job.spec.job_key}


@query
def get_job(job_id: int) -> Parameters:
    """Read a job. Returns its row of `parts/job_columns.sql`, if it exists."""
    return {"job_id": job_id}


@query
def list_jobs(
    *,
    state: JobState | None,
    task: str | None,
    queue_name: str | None,
    job_key: str | None,
    flags: Sequence[str] | None,
    after: int,
    page_size: int,
) -> Parameters:
    """List jobs in the order of their ids, at most `page_size` of them. Returns rows of `parts/job_columns.sql`."""
    return {
        "state": None if state is None else state.value,
        "task": task,
        "queue_name": queue_name,
        "job_key": job_key,
        "flags": None if flags is None else list(flags),
        "after": after,
        "page_size": page_size,
    }


@query
def count_jobs() -> Parameters:
    """Count jobs by state. Returns state and number; states without jobs are left out."""
    return {}


@query
def remove_job(job_key: str) -> Parameters:
    """Remove the job that has a key. Returns its row, if there was one."""
    return {"job_key": job_key}


@query
def complete_jobs(job_ids: Sequence[int]) -> Parameters:
    """Delete jobs that are not running. Returns the rows of those that were deleted."""
    return {"job_ids": list(job_ids)}


@query
def permanently_fail_jobs(job_ids: Sequence[int], reason: str | None) -> Parameters:
    """Fail jobs for good. Returns the rows of those that were failed."""
    return {"job_ids": list(job_ids), "reason": reason}


@query
def reschedule_jobs(job_ids: Sequence[int], options: RescheduleJobOptions) -> Parameters:
    """Change when jobs run, and how often they may be tried. Returns the rows of those that were changed."""
    return {
        "job_ids": list(job_ids),
        "run_at": options.run_at,
        "priority": options.priority,
        "attempts": options.attempts,
        "max_attempts": options.max_attempts,
    }


@query
def retry_jobs(job_ids: Sequence[int] | None, task: str | None) -> Parameters:
    """Let failed jobs run again. Returns the rows of those that will."""
    return {"job_ids": None if job_ids is None else list(job_ids), "task": task}


@query
def force_unlock_workers(worker_ids: Sequence[str]) -> Parameters:
    """Unlock everything that workers hold. Returns nothing of interest."""
    return {"worker_ids": list(worker_ids)}


@query
def wake_workers(count: int) -> Parameters:
    """Notify workers of jobs that can run. Returns nothing of interest."""
    return {"count": count}


@query
def delete_unknown_tasks(kept: Sequence[str]) -> Parameters:
    """Delete tasks that have no job and that no worker or schedule names. Returns their identifiers."""
    return {"kept": list(kept)}


@query
def delete_unused_tasks(kept: Sequence[str]) -> Parameters:
    """Delete tasks that have no job, in a schema without Ferryman's extensions. Returns their identifiers."""
    return {"kept": list(kept)}


@query
def delete_unused_queues() -> Parameters:
    """Delete named queues that have no job and no lock. Returns their names."""
    return {}


@query
def delete_failed_jobs(age: float | None = None) -> Parameters:
    """Delete jobs that failed for good, except in the last `age` seconds. Returns how many."""
    return {"age": age}


def _parameters(job: NewJob) -> dict[str, Any]:
    spec = job.spec
    return {
        "identifier": job.identifier,
        "payload": job.payload_json,
        "queue_name": spec.queue_name,
        "run_at": spec.run_at,
        "delay": None if spec.delay is None else spec.delay.total_seconds(),
        "max_attempts": spec.max_attempts,
        "priority": spec.priority,
        "flags": None if spec.flags is None else list(spec.flags),
    }
