"""Statements that write the outcomes of claimed jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ferryman.queries import query
from ferryman.queries.literals import array, arrays_by_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.queries import Parameters

ClaimKey: TypeAlias = "tuple[int, int, int]"
"""A claim as settlements name it: a job, a token and a queue (0: none), once for each token that it may have by now."""

PATIENCE = "100ms"
"""How long a settlement waits for a locked row. Then it fails with `LOCK_NOT_AVAILABLE`, having changed nothing."""


@query
def complete_claims(worker_id: str, claims: Iterable[ClaimKey], *, patience: str | None = None) -> Parameters:
    """Delete completed jobs. Returns one value: the ids of those that were deleted, or None if all of them were.

    The others no longer belonged to the worker.
    """
    given = [*claims]
    tokens, job_ids = arrays_by_token((job_id, token) for job_id, token, _ in given)
    queues = [(token, queue_id) for _, token, queue_id in given if queue_id]
    return {
        "worker_id": worker_id,
        "tokens": tokens,
        "job_ids": job_ids,
        "job_count": len({job_id for job_id, _, _ in given}),
        "queue_tokens": array(token for token, _ in queues),
        "queue_ids": array(queue_id for _, queue_id in queues),
        "patience": patience,
    }


@query
def release_claims(worker_id: str, releases: str, *, patience: str | None = None) -> Parameters:
    """Unlock jobs that failed, were snoozed or are given back. Returns job id and whether no attempt is left.

    Jobs that are not returned no longer belonged to the worker.
    """
    return {"worker_id": worker_id, "releases": releases, "patience": patience}


@query
def lock_claims(worker_id: str, claims: Iterable[ClaimKey]) -> Parameters:
    """Lock the rows of claims in this transaction. Returns the ids of jobs whose rows another session has locked."""
    job_ids, tokens, queue_ids = map(array, zip(*claims, strict=True))
    return {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens, "queue_ids": queue_ids}


@query
def find_jobs(job_ids: Sequence[int]) -> Parameters:
    """Find out who owns jobs. Returns id, locked_by and token of those that still exist."""
    return {"job_ids": list(job_ids)}
