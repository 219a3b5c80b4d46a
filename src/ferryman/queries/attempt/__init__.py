"""Statements about jobs that are running: start marks and progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.queries import query
from ferryman.queries.literals import array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.queries import Parameters


@query
def mark_started(worker_id: str, claims: Iterable[tuple[int, int]]) -> Parameters:
    """Mark jobs as started. Returns job id, token and whether its row is locked, for claims that the worker still has.

    A job whose row is locked was not marked and must not start yet.

    claims: pairs of job id and token
    """
    job_ids, tokens = map(array, zip(*claims, strict=True))
    return {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens}


@query
def save_progress(told: str) -> Parameters:
    """Store the progress of running jobs, unless the worker has lost them. Returns nothing."""
    return {"told": told}


@query
def forget_progress(job_ids: Sequence[int]) -> Parameters:
    """Delete the progress of jobs that have ended. Returns nothing."""
    return {"job_ids": list(job_ids)}


@query
def prune_progress() -> Parameters:
    """Delete progress that dead workers have left behind. Returns nothing."""
    return {}


@query
def get_progress(job_id: int) -> Parameters:
    """Read the progress of a running job. Returns fraction, message and time, if its handler has reported any."""
    return {"job_id": job_id}
