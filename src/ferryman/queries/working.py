"""Calls of a worker: claim jobs, settle them, know its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

_REGISTER_TASKS = load_statement(__package__, "register_tasks")
_CLAIM_JOBS = load_statement(__package__, "claim_jobs")
_COMPLETE_CLAIMS = load_statement(__package__, "complete_claims")
_RELEASE_CLAIMS = load_statement(__package__, "release_claims")
_RETURN_LOST_CLAIMS = load_statement(__package__, "return_lost_claims")


def register_tasks(identifiers: Sequence[str]) -> Call:
    """Pairs of number and identifier come back; fewer than asked for when somebody else adds one right now."""
    return Call(_REGISTER_TASKS, {"identifiers": list(identifiers)})


def claim_jobs(
    worker_id: str,
    task_ids: Sequence[int],
    *,
    wanted: int,
    window: int,
    now: datetime | None,
    forbidden_flags: Sequence[str] | None,
) -> Call:
    """Rows of claimed jobs come back, or one row that says what to expect instead; see `ferryman.worker.claims`."""
    parameters = {
        "worker_id": worker_id,
        "task_ids": list(task_ids),
        "wanted": wanted,
        "window": window,
        "now": now,
        "forbidden_flags": None if not forbidden_flags else list(forbidden_flags),
    }
    return Call(_CLAIM_JOBS, parameters)


def complete_claims(worker_id: str, claims: Iterable[tuple[int, int, int]]) -> Call:
    """Each claim is a job id, a token and a queue id (0: none).

    The ids of the jobs that were deleted come back; the others were not ours any more.
    """
    job_ids, tokens, queue_ids = ("{" + ",".join(map(str, column)) + "}" for column in zip(*claims, strict=True))
    parameters = {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens, "queue_ids": queue_ids}
    return Call(_COMPLETE_CLAIMS, parameters)


def release_claims(worker_id: str, releases: str) -> Call:
    """The ids of the jobs that were given back come back; the others were not ours any more."""
    return Call(_RELEASE_CLAIMS, {"worker_id": worker_id, "releases": releases})


def return_lost_claims(worker_id: str, newest_token: int) -> Call:
    """The ids of the jobs that were given back come back: those that the worker claimed after the given token."""
    return Call(_RETURN_LOST_CLAIMS, {"worker_id": worker_id, "token": newest_token})
