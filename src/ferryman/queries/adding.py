"""Calls that add jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.jobs import NewJob

_INSERT_JOB = load_statement(__package__, "insert_job", is_qualified=True)
_INSERT_JOBS = load_statement(__package__, "insert_jobs", is_qualified=True)
_ADD_KEYED_JOBS = load_statement(__package__, "add_keyed_jobs")
_DEDUPE_JOB = load_statement(__package__, "dedupe_job")


def insert_job(job: NewJob, *, notify: bool, using: Any) -> Call:
    """Add a job without a key. One row comes back, its id and now; or none: ask again."""
    return Call(_INSERT_JOB, {**_parameters(job), "notify": notify}, using)


def insert_jobs(kinds: str, payloads: str, kind_of: str | None, *, notify: bool, using: Any) -> Call:
    """Add jobs without keys. One row comes back: their ids in input order (or null: ask again), and now."""
    parameters = {"kinds": kinds, "payloads": payloads, "kind_of": kind_of, "notify": notify}
    return Call(_INSERT_JOBS, parameters, using)


def add_keyed_jobs(specs: str, delays: Sequence[float | None] | None, *, preserve_run_at: bool, using: Any) -> Call:
    """Add jobs with distinct keys. Rows of `job_columns.sql` come back, in no particular order."""
    listed = None if delays is None else "{" + ",".join("null" if each is None else repr(each) for each in delays) + "}"
    return Call(_ADD_KEYED_JOBS, {"specs": specs, "delays": listed, "preserve_run_at": preserve_run_at}, using)


def dedupe_job(job: NewJob, *, using: Any) -> Call:
    """Add a job unless its key is taken. One row of `job_columns.sql` comes back."""
    return Call(_DEDUPE_JOB, {**_parameters(job), "job_key": job.spec.job_key}, using)


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
