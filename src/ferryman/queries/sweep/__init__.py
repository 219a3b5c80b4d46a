"""Statements of recovery: which workers are dead, what they hold, what happens to it, and what is kept on record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ferryman.queries import query
from ferryman.queries.advisory_locks import SESSION_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ferryman.queries import Parameters

IDLE_SECONDS = 5.0
"""The longest time between two statements of a sweep. After that its session is ended, so that others can sweep."""


@query
def take_recovery_lock(lock_class: int, schema_name: str) -> Parameters:
    """Try to take the lock of a sweep, or of retention, for this transaction. Returns one row: whether that worked."""
    return {"lock_class": lock_class, "schema_name": schema_name, "idle_seconds": IDLE_SECONDS}


@query
def find_silent_workers(
    *,
    threshold: float,
    claimed_threshold: float,
    multiplier: float,
    flags: Sequence[str],
    observed: Sequence[Mapping[str, Any]] | None,
    named: Sequence[str] | None,
) -> Parameters:
    """Find registered workers that are silent. Returns a row for each one.

    It has id, reason, newest heartbeat, whether it is dead, whether it claims ahead, and its own default policy.
    """
    return {
        "threshold": threshold,
        "claimed_threshold": claimed_threshold,
        "multiplier": multiplier,
        "flags": list(flags),
        "observed": None if observed is None else json.dumps(observed),
        "named": None if named is None else list(named),
    }


@query
def find_orphan_holders(
    *,
    threshold: float,
    unregistered_timeout: float | None,
    multiplier: float,
    flags: Sequence[str],
    named: Sequence[str] | None,
) -> Parameters:
    """Find workers that hold jobs and are not registered. Returns id, whether it is dead, reason, and what it holds.

    Between the last two stand whether it claimed ahead, and its default policy.
    """
    return {
        "threshold": threshold,
        "unregistered_timeout": unregistered_timeout,
        "multiplier": multiplier,
        "flags": list(flags),
        "named": None if named is None else list(named),
    }


@query
def read_beats(worker_ids: Sequence[str]) -> Parameters:
    """Read the newest heartbeats of workers. Returns id, microseconds, time, interval and stored silence in seconds."""
    return {"worker_ids": list(worker_ids)}


@query
def confirm_dead_workers(workers: Iterable[tuple[str, int | None, bool]]) -> Parameters:
    """Lock the rows of dead workers that have sent no heartbeat since. Returns the ids of those that are still dead.

    workers: id, newest heartbeat, and whether it was named by hand
    """
    given = [{"id": worker_id, "beat": beat, "is_named": is_named} for worker_id, beat, is_named in workers]
    return {"workers": json.dumps(given)}


@query
def lock_interrupted_jobs(worker_ids: Sequence[str], *, after: int, batch: int) -> Parameters:
    """Lock jobs that workers hold until the transaction ends. Returns their ids, all beyond `after`."""
    return {"worker_ids": list(worker_ids), "after": after, "batch": batch}


@query
def find_next_interrupted_job(worker_ids: Sequence[str], *, after: int) -> Parameters:
    """Find the next job that workers hold. Returns its id, if there is one beyond `after`."""
    return {"worker_ids": list(worker_ids), "after": after}


@query
def read_crash_facts(job_ids: Sequence[int], *, crash_window: float) -> Parameters:
    """Read what decides about interrupted jobs. Returns a row for each job; see `ferryman.recovery.crashes`."""
    return {"job_ids": list(job_ids), "crash_window": crash_window}


@query
def read_interrupted_jobs(job_ids: Sequence[int]) -> Parameters:
    """Read interrupted jobs. Returns rows of `parts/job_columns.sql`."""
    return {"job_ids": list(job_ids)}


@query
def recover_jobs(recovered_by: str, decisions: Sequence[Mapping[str, Any]]) -> Parameters:
    """Recover jobs as decided. Returns a row for each recovered job; see `ferryman.recovery.sweep_results`."""
    return {"recovered_by": recovered_by, "decisions": json.dumps(decisions)}


@query
def forget_dead_workers(workers: Sequence[Mapping[str, Any]]) -> Parameters:
    """Delete the rows of dead workers and record their loss. Returns the ids of those that were deleted."""
    return {"workers": json.dumps(workers)}


@query
def delete_old_crashes(age: float, batch: int) -> Parameters:
    """Delete crashes older than `age` seconds, at most a batch. Returns a row for each one."""
    return {"age": age, "batch": batch}


@query
def delete_old_lost_workers(age: float, batch: int) -> Parameters:
    """Delete records of lost workers older than `age` seconds, at most a batch. Returns a row for each one."""
    return {"age": age, "batch": batch}


@query
def delete_dead_marks(batch: int) -> Parameters:
    """Delete start marks of claims that are over, at most a batch. Returns a row for each one."""
    return {"batch": batch}


@query
def delete_old_worker_states(age: float, batch: int) -> Parameters:
    """Delete states of workers older than `age` seconds, at most a batch. Returns a row for each one."""
    return {"age": age, "batch": batch}


@query
def delete_old_failed_jobs(age: float, *, after: int, batch: int) -> Parameters:
    """Delete jobs that failed for good more than `age` seconds ago, at most a batch. Returns ids.

    after: leave jobs with ids up to this one alone
    """
    return {"age": age, "after": after, "batch": batch}


@query
def upsert_task_policies(policies: Sequence[Mapping[str, Any]]) -> Parameters:
    """Store what tasks want after a crash. Returns the identifiers of the tasks whose stored policy changed."""
    return {"policies": json.dumps(policies)}


@query
def list_active_workers(threshold: float) -> Parameters:
    """List registered workers. Returns a row for each one."""
    return {"threshold": threshold, "session_class": SESSION_CLASS}


@query
def list_lost_workers(page_size: int) -> Parameters:
    """List workers that were declared dead, the newest first. Returns a row for each one."""
    return {"page_size": page_size}


@query
def list_worker_states(worker_id: str | None, page_size: int) -> Parameters:
    """List what workers were doing at each heartbeat. Returns a row for each state."""
    return {"worker_id": worker_id, "page_size": page_size}


@query
def list_crashes(job_id: int) -> Parameters:
    """List the crashes of a job. Returns a row for each one."""
    return {"job_id": job_id}
