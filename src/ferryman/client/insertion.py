"""Writes new jobs into the table: by plain inserts without keys, by Graphile's functions with keys."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.errors import JobNotAddedError
from ferryman.jobs import Job, JobState, NewJob
from ferryman.queries.job_rows import job_from_row
from ferryman.queries.jobs import add_keyed_jobs, dedupe_job, insert_job, insert_jobs
from ferryman.tasks.forms import is_null

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ferryman.database.steps import Steps
    from ferryman.jobs import JobSpec

JOBS_PER_STATEMENT = 5_000
BYTES_PER_STATEMENT = 16 * 1024 * 1024
DEFAULT_MAX_ATTEMPTS = 25
ATTEMPTS = 20
"""Each miss needs another program to change the same row at that instant, so the second attempt mostly works."""

_NO_DELAY = timedelta()
_encoder = msgspec.json.Encoder()


def slices(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    """Split jobs into parts that are small enough for one statement each."""
    parts: list[Sequence[NewJob]] = []
    start, size = 0, 0
    for place, job in enumerate(jobs):
        size += len(job.payload_json)
        if place - start == JOBS_PER_STATEMENT or (size > BYTES_PER_STATEMENT and place > start):
            parts.append(jobs[start:place])
            start, size = place, len(job.payload_json)
    if start < len(jobs):
        parts.append(jobs[start:])
    return parts


def insert_one(job: NewJob, *, notify: bool, using: Any) -> Steps[Job]:
    """Add a job without a key."""
    call = insert_job(job, notify=notify).on(using)
    for _ in range(ATTEMPTS):
        rows = yield call
        if rows:
            job_id, now, *_ = rows[0]
            return _all_as_added([job], [job_id], now)[0]
    raise _not_added(job.identifier)


def insert_many(jobs: Sequence[NewJob], *, notify: bool, using: Any) -> Steps[list[Job]]:
    """Add jobs without keys, in order."""
    kinds, kind_of = _kinds(jobs)
    call = insert_jobs(kinds, f"[{','.join([job.payload_json for job in jobs])}]", kind_of, notify=notify).on(using)
    for _ in range(ATTEMPTS):
        [(ids, now, *_)] = yield call
        if ids is not None:
            return _all_as_added(jobs, ids, now)
    raise _not_added(jobs[0].identifier)


def add_keyed(jobs: Mapping[str, NewJob], *, preserve_run_at: bool, using: Any) -> Steps[dict[str, Job]]:
    """Add jobs that have keys, retrying until every key has its job.

    The original body of `add_jobs` silently drops a job whose predecessor is claimed at that very moment.
    """
    added: dict[str, Job] = {}
    for _ in range(ATTEMPTS):
        missing = [jobs[key] for key in sorted(jobs.keys() - added.keys())]
        if not missing:
            return added
        specs = _encoder.encode([_record(job) for job in missing]).decode()
        delays = [_seconds(job.spec.delay) for job in missing] if any(job.spec.delay for job in missing) else None
        rows = yield add_keyed_jobs(specs, delays, preserve_run_at=preserve_run_at).on(using)
        added |= {job.key: _named_like(jobs[job.key], job) for job in map(job_from_row, rows) if job.key is not None}
    raise _not_added(next(iter(jobs.values())).identifier)


def dedupe(job: NewJob, *, using: Any) -> Steps[Job]:
    """Add a job, or return the job that already has its key."""
    for _ in range(ATTEMPTS):
        rows = yield dedupe_job(job).on(using)
        if rows:
            found = job_from_row(rows[0])
            return _named_like(job, found) if found.revision == 0 else found
    raise _not_added(job.identifier)


def _kinds(jobs: Sequence[NewJob]) -> tuple[str, str | None]:
    """Return the distinct combinations of task and scheduling as JSON, and for each job the number of its combination.

    Most calls add jobs of one kind, so only the payloads grow with the number of jobs.
    """
    numbers: dict[tuple[str, JobSpec], int] = {}
    kind_of: list[int] = []
    last: NewJob | None = None
    for job in jobs:
        if last is None or job.spec is not last.spec or job.identifier != last.identifier:
            number = numbers.setdefault((job.identifier, job.spec), len(numbers))
            last = job
        kind_of.append(number)
    kinds = [{"number": number, **_schedule(*kind)} for kind, number in numbers.items()]
    literal = None if len(numbers) == 1 else "{" + ",".join(map(str, kind_of)) + "}"
    return _encoder.encode(kinds).decode(), literal


def _schedule(identifier: str, spec: JobSpec) -> dict[str, Any]:
    return {
        "identifier": identifier,
        "queue_name": spec.queue_name,
        "run_at": None if spec.run_at is None else spec.run_at.astimezone(UTC),
        "delay": _seconds(spec.delay),
        "max_attempts": spec.max_attempts,
        "priority": spec.priority,
        "flags": spec.flags,
    }


def _record(job: NewJob) -> dict[str, Any]:
    record = {**_schedule(job.identifier, job.spec), "job_key": job.spec.job_key}
    if not is_null(job.payload_json):
        record["payload"] = msgspec.Raw(job.payload_json.encode())
    return record


def _all_as_added(jobs: Sequence[NewJob], ids: Sequence[int], now: datetime) -> list[Job]:
    """Return the jobs as the database holds them, made of what was sent and of the ids and the time that came back.

    Jobs that are added together mostly share one spec, which is unpacked once.
    """
    added: list[Job] = []
    spec: JobSpec | None = None
    for job, job_id in zip(jobs, ids, strict=True):
        if job.spec is not spec:
            spec = job.spec
            queue_name, priority = spec.queue_name, spec.priority or 0
            run_at = now + (spec.delay or _NO_DELAY) if spec.run_at is None else spec.run_at
            max_attempts = DEFAULT_MAX_ATTEMPTS if spec.max_attempts is None else spec.max_attempts
            flags = tuple(sorted(spec.flags or ()))
            state = JobState.SCHEDULED if run_at > now else JobState.READY
        added.append(
            Job(
                job_id,
                job.identifier,
                job.payload_json,
                queue_name,
                priority,
                run_at,
                0,
                max_attempts,
                None,
                now,
                now,
                None,
                None,
                None,
                0,
                flags,
                state,
            )
        )
    return added


def _seconds(delay: timedelta | None) -> float | None:
    return None if delay is None else delay.total_seconds()


def _named_like(new: NewJob, added: Job) -> Job:
    """Return an added job with the task and queue names that were asked for.

    The query that adds it cannot see rows of tasks and queues that a function in it adds.
    """
    return msgspec.structs.replace(added, task_identifier=new.identifier, queue_name=new.spec.queue_name)


def _not_added(identifier: str) -> JobNotAddedError:
    return JobNotAddedError(
        f"the job for {identifier!r} was not stored in {ATTEMPTS} attempts, because other programs keep changing the "
        f"same task, queue or key. Try again, and run `ferryman schema status` if it happens often."
    )
