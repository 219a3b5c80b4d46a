"""Statements that claim jobs and hold on to claims: see README.md beside this file."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING

from ferryman.queries import query, script
from ferryman.queries.literals import array, arrays_by_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ferryman.queries import Parameters
    from ferryman.queries.settle import ClaimKey


@query(is_lazy=True)
def claim_jobs(
    worker_id: str,
    task_ids: Sequence[int],
    *,
    wanted: int,
    window: int,
    now: datetime | None,
    forbidden_flags: Sequence[str] | None,
    done: Sequence[tuple[int, int]] = (),
    durable: bool = True,
) -> Parameters:
    """Claim at most `wanted` jobs. Returns a header row, then a row per job; see `ferryman.worker.claiming.claims`.

    window: how many jobs to look at
    now: the caller's clock, or None for the database's
    done: ids and tokens of claims without a queue whose jobs are finished. They are deleted along with the claim; if
        that did not work for all of them, the header has the ids of those that were deleted
    durable: whether to wait until the claim is on disk
    """
    tokens, job_ids = arrays_by_token(done)
    return {
        "worker_id": worker_id,
        "task_ids": array(task_ids),  # a literal: the driver would look at each number to find out what it is
        "wanted": wanted,
        "window": window,
        "now": now,
        "forbidden_flags": None if not forbidden_flags else list(forbidden_flags),
        "done_tokens": tokens,
        "done_job_ids": job_ids,
        "done_count": len(done),
        "durable": durable,
    }


claim_plain_jobs = claim_jobs.like(
    "claim_plain_jobs", "Claim at most `wanted` jobs without a queue, if no job with a queue is near. See `claim_jobs`."
)
claim_jobs_by_task = claim_jobs.like(
    "claim_jobs_by_task", "Claim at most `wanted` jobs, looking past those of other tasks. See `claim_jobs`."
)


class ClaimStatement(Enum):
    """The ways to claim. All take the same jobs, those that come first, as far as they find them."""

    PLAIN = claim_plain_jobs
    """The cheapest. It claims nothing where jobs with a queue are near."""
    FRONT = claim_jobs
    """Looks at the first jobs of the table."""
    BY_TASK = claim_jobs_by_task
    """The most expensive. Jobs that this worker may not claim do not stand in its way."""


LISTEN = script("ferryman.queries.claim", "listen")
"""Subscribe this session to the notifications that workers need."""


@query
def register_tasks(identifiers: Sequence[str]) -> Parameters:
    """Give each task a number. Returns number and identifier; too few rows while another session adds one of them."""
    return {"identifiers": list(identifiers)}


@query
def return_lost_claims(worker_id: str, *, after: int | None, known: Iterable[ClaimKey]) -> Parameters:
    """Give back claims whose reply never reached the worker. Returns how many, and whether a locked row kept any back.

    after: leave claims with a token up to this one alone
    known: leave these claims alone
    """
    claims = [*known]
    return {
        "worker_id": worker_id,
        "after": after,
        "known_jobs": array(job_id for job_id, _, _ in claims),
        "known_tokens": array(each for _, each, _ in claims),
        "known_queues": array(queue_id for _, _, queue_id in claims),
    }


@query
def renew_claims(worker_id: str, claims: Iterable[ClaimKey], new_token: int) -> Parameters:
    """Renew the locks of long jobs. Returns each job's id, and 'renewed', 'busy', 'lost' or 'gone'."""
    job_ids, tokens, queue_ids = map(array, zip(*claims, strict=True))
    return {
        "worker_id": worker_id,
        "job_ids": job_ids,
        "tokens": tokens,
        "queue_ids": queue_ids,
        "new_token": new_token,
    }


@query
def read_clock() -> Parameters:
    """Read the database's clock. Returns one row: the time as a token."""
    return {}


@query
def record_waiting(worker_id: str, claims: Iterable[tuple[int, int]]) -> Parameters:
    """Record which claimed jobs have not started. Returns the worker's id, unless its row is gone or is being swept.

    claims: pairs of job id and token
    """
    by_token: dict[str, list[int]] = {}
    for job_id, token in claims:
        by_token.setdefault(str(token), []).append(job_id)
    return {"worker_id": worker_id, "waiting": json.dumps(by_token)}


@query
def prove_listening() -> Parameters:
    """Ask whether this session still listens. Returns one row: yes or no."""
    return {}
