"""Finds, lists and counts jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferryman.client.managing import check_ids
from ferryman.errors import InvalidJobError
from ferryman.jobs import (
    MAX_IDENTIFIER_LENGTH,
    MAX_KEY_LENGTH,
    MAX_QUEUE_NAME_LENGTH,
    JobSpec,
    JobState,
    check_integer,
    check_text,
)
from ferryman.queries import attempt as attempt_queries
from ferryman.queries import jobs as job_queries
from ferryman.queries.job_rows import job_from_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ferryman.client.base import Core
    from ferryman.database.steps import Steps
    from ferryman.jobs import Job

MAX_PAGE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs in the order of their ids, and where the next page starts."""

    jobs: list[Job]
    next_after: int | None
    """The `after` of the next page; None if this is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """The number of jobs in each state."""

    ready: int = 0
    scheduled: int = 0
    running: int = 0
    retrying: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """The number of all jobs in the table."""
        return self.ready + self.scheduled + self.running + self.retrying + self.failed


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a running job is, as its handler reported with `ctx.set_progress`."""

    fraction: float
    """From 0 to 1."""
    message: str | None
    reported_at: datetime


def get_job(_core: Core, job_id: int, *, using: Any = None) -> Steps[Job | None]:
    """Return the job with this id; None if there is none. Completed jobs are deleted, so they are not found."""
    check_ids([job_id])
    rows = yield job_queries.get_job(job_id).on(using)
    return job_from_row(rows[0]) if rows else None


def get_progress(_core: Core, job_id: int, *, using: Any = None) -> Steps[JobProgress | None]:
    """Return how far a running job is; None if it is not running, or its handler has reported nothing."""
    check_ids([job_id])
    rows = yield attempt_queries.get_progress(job_id).on(using)
    return JobProgress(*rows[0]) if rows else None


def list_jobs(
    _core: Core,
    *,
    state: JobState | str | None = None,
    task: str | None = None,
    queue_name: str | None = None,
    job_key: str | None = None,
    flags: Sequence[str] | None = None,
    limit: int = 100,
    after: int | None = None,
    using: Any = None,
) -> Steps[JobPage]:
    """List the jobs that pass every given filter, a page at a time, lowest id first.

    flags: only jobs that have all of these flags
    limit: the size of a page, 1 to 10,000
    after: only jobs with a greater id: the `next_after` of the previous page
    """
    check_integer("limit", limit, 1, MAX_PAGE_SIZE)
    for name, value, longest in (
        ("task", task, MAX_IDENTIFIER_LENGTH),
        ("queue_name", queue_name, MAX_QUEUE_NAME_LENGTH),
        ("job_key", job_key, MAX_KEY_LENGTH),
    ):
        if value is not None:
            check_text(name, value, longest)
    rows = yield job_queries.list_jobs(
        state=None if state is None else _state(state),
        task=task,
        queue_name=queue_name,
        job_key=job_key,
        flags=None if flags is None else tuple(JobSpec(flags=flags).flags or ()),
        after=check_ids([0 if after is None else after])[0],
        page_size=limit + 1,
    ).on(using)
    jobs = [job_from_row(row) for row in rows[:limit]]
    return JobPage(jobs, jobs[-1].id if len(rows) > limit else None)


def counts(_core: Core, *, using: Any = None) -> Steps[JobCounts]:
    """Count the jobs in each state."""
    rows = yield job_queries.count_jobs().on(using)
    return JobCounts(**{str(state): int(number) for state, number in rows})


def _state(value: JobState | str) -> JobState:
    try:
        return JobState(value)
    except ValueError:
        allowed = ", ".join(repr(state.value) for state in JobState)
        raise InvalidJobError(f"state must be one of {allowed}; got {value!r}") from None
