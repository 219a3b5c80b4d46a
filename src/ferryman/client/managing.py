"""Changes jobs that were added before. Jobs that a worker is running are never changed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ferryman.database.steps import repeated
from ferryman.errors import InvalidJobError
from ferryman.jobs import MAX_KEY_LENGTH, RescheduleJobOptions, check_identifier, check_storable, check_text
from ferryman.queries import jobs as job_queries
from ferryman.queries.job_rows import job_from_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.client.base import Core
    from ferryman.database.steps import Call, Row, Steps
    from ferryman.jobs import Job

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1


def remove_job(_core: Core, job_key: str, *, using: Any = None) -> Steps[Job | None]:
    """Remove the job that has this key and return it; None if there is none.

    A running job finishes, but loses its key and is not retried.
    """
    check_text("job_key", job_key, MAX_KEY_LENGTH)
    rows = yield job_queries.remove_job(job_key).on(using)
    return job_from_row(rows[0]) if rows else None


def complete_jobs(_core: Core, job_ids: Iterable[int], *, using: Any = None) -> Steps[list[Job]]:
    """Delete these jobs as if they had completed. Running jobs are skipped; the result lists the deleted ones."""
    ids = check_ids(job_ids)
    if not ids:
        return []
    rows = yield from repeated(partial(_ask, job_queries.complete_jobs(ids).on(using)))
    return _in_order(ids, rows)


def permanently_fail_jobs(
    _core: Core, job_ids: Iterable[int], reason: str | None = None, *, using: Any = None
) -> Steps[list[Job]]:
    """Fail these jobs for good, with `reason` as their error. Running jobs are skipped."""
    ids = check_ids(job_ids)
    if reason is not None:
        check_storable("reason", reason)
    if not ids:
        return []
    rows = yield from repeated(partial(_ask, job_queries.permanently_fail_jobs(ids, reason).on(using)))
    return _in_order(ids, rows)


def reschedule_jobs(
    _core: Core, job_ids: Iterable[int], options: RescheduleJobOptions, *, using: Any = None
) -> Steps[list[Job]]:
    """Change the time, the priority or the attempts of these jobs. Running jobs are skipped.

    Values that `options` leaves out do not change. A failed job stays failed unless `attempts` or `max_attempts` leaves
    it an attempt; `retry_jobs` runs failed jobs again.
    """
    ids = check_ids(job_ids)
    if not ids:
        return []
    rows = yield from repeated(partial(_ask, job_queries.reschedule_jobs(ids, options).on(using)))
    if rows:
        yield job_queries.wake_workers(len(rows)).on(using)
    return _in_order(ids, rows)


def retry_jobs(
    _core: Core, job_ids: Iterable[int] | None = None, *, task: str | None = None, using: Any = None
) -> Steps[list[Job]]:
    """Run failed jobs again at once, with the same ids. Their attempts and crashes count from zero again.

    Running jobs, and jobs with attempts left, are skipped; the result lists the jobs that run again.

    job_ids: the jobs to retry; None for every failed job that was not superseded
    task: retry only failed jobs of this task
    """
    ids = None if job_ids is None else check_ids(job_ids)
    if task is not None:
        check_identifier(task)
    if ids == []:
        return []
    rows = yield from repeated(partial(_ask, job_queries.retry_jobs(ids, task).on(using)))
    if rows:
        yield job_queries.wake_workers(len(rows)).on(using)
    return list(map(job_from_row, rows)) if ids is None else _in_order(ids, rows)


def force_unlock_workers(_core: Core, worker_ids: Iterable[str], *, using: Any = None) -> Steps[None]:
    """Release every lock of workers that you know are dead. Their jobs may be claimed again at once.

    If such a worker is alive, it continues to run its jobs, and another worker may run them at the same time.
    """
    ids = _checked_workers(worker_ids)
    if not ids:
        return
    yield from repeated(partial(_ask, job_queries.force_unlock_workers(ids).on(using)))
    yield job_queries.wake_workers(len(ids)).on(using)


def check_ids(job_ids: Iterable[int]) -> list[int]:
    """Check that these can be ids of jobs, and return them as a list."""
    ids = list(job_ids)
    for job_id in ids:
        if not isinstance(job_id, int) or isinstance(job_id, bool):
            raise InvalidJobError(f"a job id must be a whole number, not {type(job_id).__name__}; nothing was changed")
        if not BIGINT_MIN <= job_id <= BIGINT_MAX:
            raise InvalidJobError(f"no job can have the id {job_id}; nothing was changed")
    return ids


def _checked_workers(worker_ids: Iterable[str]) -> list[str]:
    if isinstance(worker_ids, str):
        raise InvalidJobError(
            f"worker_ids must be a list of ids; got the single string {worker_ids!r}. Nothing was changed."
        )
    ids = list(worker_ids)
    for worker_id in ids:
        if not isinstance(worker_id, str):
            raise InvalidJobError(f"a worker id must be a string, not {type(worker_id).__name__}; nothing was changed")
        check_storable("a worker id", worker_id)
    return ids


def _ask(call: Call) -> Steps[Sequence[Row]]:
    rows = yield call
    return rows


def _in_order(ids: Sequence[int], rows: Sequence[Row]) -> list[Job]:
    found = {job.id: job for job in map(job_from_row, rows)}
    return [found[job_id] for job_id in dict.fromkeys(ids) if job_id in found]
