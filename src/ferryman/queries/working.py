"""Calls of a worker: claim jobs, settle them, know its tasks."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

Key: TypeAlias = "tuple[int, int, int]"
"""A claim as settlements name it: a job, a token and a queue (0: none), once for each token that it may have by now."""

_REGISTER_TASKS = load_statement(__package__, "register_tasks")
_COMPLETE_CLAIMS = load_statement(__package__, "complete_claims")
_RELEASE_CLAIMS = load_statement(__package__, "release_claims")
_LOCK_CLAIMS = load_statement(__package__, "lock_claims")
_RETURN_LOST_CLAIMS = load_statement(__package__, "return_lost_claims")
_RENEW_CLAIMS = load_statement(__package__, "renew_claims")
_READ_CLOCK = load_statement(__package__, "read_clock")
_FIND_JOBS = load_statement(__package__, "find_jobs")
_SAVE_PROGRESS = load_statement(__package__, "save_progress")
_FORGET_PROGRESS = load_statement(__package__, "forget_progress")
_PRUNE_PROGRESS = load_statement(__package__, "prune_progress")


PATIENCE = "100ms"
"""How long a worker's settlement waits for a row that somebody else has locked."""
LOCK_NOT_AVAILABLE = "55P03"
"""The SQLSTATE of a settlement that has waited for so long. It has done nothing."""


class Search(Enum):
    """How a claim finds jobs. All ways take the same jobs, those that come first, as far as they find them."""

    PLAIN = load_statement(__package__, "claim_plain_jobs")
    """The cheapest, and it finds nothing where jobs with a queue are near."""
    FRONT = load_statement(__package__, "claim_jobs")
    """Among the first jobs of the table."""
    BY_TASK = load_statement(__package__, "claim_jobs_by_task")
    """The dearest: jobs that are not ours to take do not stand in the way."""


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
    search: Search = Search.FRONT,
    done: Sequence[tuple[int, int]] = (),
    durable: bool = True,
) -> Call:
    """A row about the claim comes back, then rows of claimed jobs; see `ferryman.worker.claiming.claims`.

    done: ids and tokens of claims without a queue whose jobs are finished, to be deleted in passing; if that did not
        work for all of them, the ids of those that were deleted come back
    durable: whether to wait until the claim is on disk
    """
    tokens, job_ids = _by_token(done)
    parameters = {
        "worker_id": worker_id,
        "task_ids": _array(task_ids),  # a literal: the driver would look at each number to find out what it is
        "wanted": wanted,
        "window": window,
        "now": now,
        "forbidden_flags": None if not forbidden_flags else list(forbidden_flags),
        "done_tokens": tokens,
        "done_job_ids": job_ids,
        "done_count": len(done),
        "durable": durable,
    }
    return Call(search.value, parameters, is_lazy=True)


def complete_claims(worker_id: str, claims: Iterable[Key], *, patience: str | None = None) -> Call:
    """One value comes back: the ids of the jobs that were deleted, or None if it was all of them.

    The others were not ours any more; see complete_claims.sql.
    """
    given = [*claims]
    tokens, job_ids = _by_token((job_id, token) for job_id, token, _ in given)
    queues = [(token, queue_id) for _, token, queue_id in given if queue_id]
    parameters = {
        "worker_id": worker_id,
        "tokens": tokens,
        "job_ids": job_ids,
        "job_count": len({job_id for job_id, _, _ in given}),
        "queue_tokens": _array(token for token, _ in queues),
        "queue_ids": _array(queue_id for _, queue_id in queues),
        "patience": patience,
    }
    return Call(_COMPLETE_CLAIMS, parameters)


def release_claims(worker_id: str, releases: str, *, patience: str | None = None) -> Call:
    """Pairs come back: the id of a job that was given back, and whether it has no attempt left.

    The others were not ours any more; see complete_claims.sql.
    """
    return Call(_RELEASE_CLAIMS, {"worker_id": worker_id, "releases": releases, "patience": patience})


def lock_claims(worker_id: str, claims: Iterable[Key]) -> Call:
    """The ids of jobs come back that cannot be settled now, because somebody else works on their rows.

    All others that are still ours stay locked until the transaction ends.
    """
    job_ids, tokens, queue_ids = map(_array, zip(*claims, strict=True))
    parameters = {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens, "queue_ids": queue_ids}
    return Call(_LOCK_CLAIMS, parameters)


def return_lost_claims(worker_id: str, *, after: int | None, known: Iterable[Key]) -> Call:
    """How many jobs were given back comes back, and whether any were left because somebody else holds their rows.

    The claims in `known` are left alone, and those with a token up to `after`.
    """
    claims = [*known]
    parameters = {
        "worker_id": worker_id,
        "after": after,
        "known_jobs": _array(job_id for job_id, _, _ in claims),
        "known_tokens": _array(each for _, each, _ in claims),
        "known_queues": _array(queue_id for _, _, queue_id in claims),
    }
    return Call(_RETURN_LOST_CLAIMS, parameters)


def renew_claims(worker_id: str, claims: Iterable[Key], new_token: int) -> Call:
    """Pairs of job id and what came of it come back: 'renewed', 'busy', 'lost' or 'gone'."""
    job_ids, tokens, queue_ids = map(_array, zip(*claims, strict=True))
    parameters = {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens, "queue_ids": queue_ids}
    return Call(_RENEW_CLAIMS, {**parameters, "new_token": new_token})


def read_clock() -> Call:
    """One row comes back: the time of the database, as a token."""
    return Call(_READ_CLOCK)


def find_jobs(job_ids: Sequence[int]) -> Call:
    """For the jobs that are still there, id, locked_by and token come back."""
    return Call(_FIND_JOBS, {"job_ids": list(job_ids)})


def save_progress(told: str) -> Call:
    """Nothing comes back; what is told about jobs that are no longer the worker's is dropped."""
    return Call(_SAVE_PROGRESS, {"told": told})


def forget_progress(job_ids: Sequence[int]) -> Call:
    """Nothing comes back."""
    return Call(_FORGET_PROGRESS, {"job_ids": list(job_ids)})


def prune_progress() -> Call:
    """Nothing comes back; what dead workers have left is gone."""
    return Call(_PRUNE_PROGRESS)


def _by_token(claims: Iterable[tuple[int, int]]) -> tuple[str, str]:
    """Two array literals: the tokens of these claims, and for each the array literal of its jobs."""
    job_ids: dict[int, list[int]] = {}
    for job_id, token in claims:
        job_ids.setdefault(token, []).append(job_id)
    return _array(job_ids), _array(f'"{_array(each)}"' for each in job_ids.values())


def _array(values: Iterable[int | str]) -> str:
    """An array literal."""
    return "{" + ",".join(map(str, values)) + "}"
