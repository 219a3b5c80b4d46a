"""Calls of recovery: who is dead, what they hold, and what becomes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_TAKE_SWEEP_LOCK = load_statement(__package__, "take_sweep_lock")
_FIND_SILENT_WORKERS = load_statement(__package__, "find_silent_workers")
_FIND_ORPHAN_HOLDERS = load_statement(__package__, "find_orphan_holders")
_CONFIRM_DEAD_WORKERS = load_statement(__package__, "confirm_dead_workers")
_LOCK_INTERRUPTED_JOBS = load_statement(__package__, "lock_interrupted_jobs")
_FIND_NEXT_INTERRUPTED_JOB = load_statement(__package__, "find_next_interrupted_job")
_READ_CRASH_FACTS = load_statement(__package__, "read_crash_facts")
_READ_INTERRUPTED_JOBS = load_statement(__package__, "read_interrupted_jobs")
_RECOVER_JOBS = load_statement(__package__, "recover_jobs")
_FORGET_DEAD_WORKERS = load_statement(__package__, "forget_dead_workers")
_LIST_ACTIVE_WORKERS = load_statement(__package__, "list_active_workers")
_LIST_LOST_WORKERS = load_statement(__package__, "list_lost_workers")
_LIST_CRASHES = load_statement(__package__, "list_crashes")
_MARK_STARTED = load_statement(__package__, "mark_started")
_LIST_WAITING = load_statement(__package__, "list_waiting")
_UPSERT_TASK_POLICIES = load_statement(__package__, "upsert_task_policies")
_READ_BEATS = load_statement(__package__, "read_beats")
_DELETE_OLD_CRASHES = load_statement(__package__, "delete_old_crashes")
_DELETE_OLD_LOST_WORKERS = load_statement(__package__, "delete_old_lost_workers")
_DELETE_DEAD_MARKS = load_statement(__package__, "delete_dead_marks")
_DELETE_OLD_WORKER_STATES = load_statement(__package__, "delete_old_worker_states")
_DELETE_OLD_FAILED_JOBS = load_statement(__package__, "delete_old_failed_jobs")
_LIST_WORKER_STATES = load_statement(__package__, "list_worker_states")

SESSION_CLASS = 0x46524C46
"""The class of the advisory locks that say that a worker's session lasts; the other half is its session key."""
SWEEP_LOCK_CLASS = 0x46525357
"""The first half of the advisory lock of a sweep ("FRSW"); the second is a hash of the schema's name."""
RETENTION_LOCK_CLASS = 0x46525254
"""The same for retention ("FRRT")."""
IDLE_SECONDS = 5.0
"""Between two statements of a sweep. Whoever takes longer is frozen or gone, and must not hold up the others."""


def take_sweep_lock(schema_name: str) -> Call:
    """Whether this transaction may sweep comes back."""
    return _take_lock(SWEEP_LOCK_CLASS, schema_name)


def take_retention_lock(schema_name: str) -> Call:
    """Whether this transaction may delete what is old comes back."""
    return _take_lock(RETENTION_LOCK_CLASS, schema_name)


def find_silent_workers(
    *,
    threshold: float,
    claimed_threshold: float,
    multiplier: float,
    flags: Sequence[str],
    observed: Sequence[Mapping[str, Any]] | None,
    named: Sequence[str] | None,
) -> Call:
    """Rows of id, reason, newest beat, is it dead, does it prefetch, and its own default policy come back."""
    parameters = {
        "threshold": threshold,
        "claimed_threshold": claimed_threshold,
        "multiplier": multiplier,
        "flags": list(flags),
        "observed": None if observed is None else json.dumps(observed),
        "named": None if named is None else list(named),
    }
    return Call(_FIND_SILENT_WORKERS, parameters)


def find_orphan_holders(
    *,
    threshold: float,
    unregistered_timeout: float | None,
    multiplier: float,
    flags: Sequence[str],
    named: Sequence[str] | None,
) -> Call:
    """Rows of id, is it dead, reason, whether it prefetched, its default policy, and what it holds come back."""
    parameters = {
        "threshold": threshold,
        "unregistered_timeout": unregistered_timeout,
        "multiplier": multiplier,
        "flags": list(flags),
        "named": None if named is None else list(named),
    }
    return Call(_FIND_ORPHAN_HOLDERS, parameters)


def read_beats(worker_ids: Sequence[str]) -> Call:
    """Rows of id, newest beat in microseconds and as a time, its interval and the noted silence, in seconds."""
    return Call(_READ_BEATS, {"worker_ids": list(worker_ids)})


def confirm_dead_workers(workers: Iterable[tuple[str, int | None, bool]]) -> Call:
    """Each worker is an id, its newest beat, and whether somebody names it. The ids of the dead come back."""
    given = [{"id": worker_id, "beat": beat, "is_named": is_named} for worker_id, beat, is_named in workers]
    return Call(_CONFIRM_DEAD_WORKERS, {"workers": json.dumps(given)})


def lock_interrupted_jobs(worker_ids: Sequence[str], *, after: int, batch: int) -> Call:
    """The ids of jobs that these workers hold come back; their rows stay locked until the transaction ends."""
    return Call(_LOCK_INTERRUPTED_JOBS, {"worker_ids": list(worker_ids), "after": after, "batch": batch})


def find_next_interrupted_job(worker_ids: Sequence[str], *, after: int) -> Call:
    """The id of the next job that these workers hold comes back, if there is one."""
    return Call(_FIND_NEXT_INTERRUPTED_JOB, {"worker_ids": list(worker_ids), "after": after})


def read_crash_facts(job_ids: Sequence[int], *, crash_window: float) -> Call:
    """A row for each job comes back; see `ferryman.recovery.crashes`."""
    return Call(_READ_CRASH_FACTS, {"job_ids": list(job_ids), "crash_window": crash_window})


def read_interrupted_jobs(job_ids: Sequence[int]) -> Call:
    """The rows of the jobs come back."""
    return Call(_READ_INTERRUPTED_JOBS, {"job_ids": list(job_ids)})


def recover_jobs(recovered_by: str, decisions: Sequence[Mapping[str, Any]]) -> Call:
    """A row for each job that was taken away comes back; see `ferryman.recovery.sweep_results`."""
    return Call(_RECOVER_JOBS, {"recovered_by": recovered_by, "decisions": json.dumps(decisions)})


def forget_dead_workers(workers: Sequence[Mapping[str, Any]]) -> Call:
    """The ids of the workers whose rows were deleted come back."""
    return Call(_FORGET_DEAD_WORKERS, {"workers": json.dumps(workers)})


def list_active_workers(threshold: float) -> Call:
    """A row for each registered worker comes back."""
    return Call(_LIST_ACTIVE_WORKERS, {"threshold": threshold, "session_class": SESSION_CLASS})


def list_lost_workers(page_size: int) -> Call:
    """A row for each lost worker comes back."""
    return Call(_LIST_LOST_WORKERS, {"page_size": page_size})


def list_crashes(job_id: int) -> Call:
    """A row for each crash of the job comes back."""
    return Call(_LIST_CRASHES, {"job_id": job_id})


def mark_started(worker_id: str, claims: Iterable[tuple[int, int]]) -> Call:
    """Each claim is a job id and a token. They come back, with whether the job is busy, unless they were lost.

    Those that are not busy may begin.
    """
    job_ids, tokens = ("{" + ",".join(map(str, column)) + "}" for column in zip(*claims, strict=True))
    return Call(_MARK_STARTED, {"worker_id": worker_id, "job_ids": job_ids, "tokens": tokens})


def list_waiting(worker_id: str, claims: Iterable[tuple[int, int]]) -> Call:
    """Each claim is a job id and a token. The worker's id comes back, unless its row is gone or is being swept."""
    by_token: dict[str, list[int]] = {}
    for job_id, token in claims:
        by_token.setdefault(str(token), []).append(job_id)
    return Call(_LIST_WAITING, {"worker_id": worker_id, "waiting": json.dumps(by_token)})


def upsert_task_policies(policies: Sequence[Mapping[str, Any]]) -> Call:
    """The identifiers of the tasks whose stored policy changed come back."""
    return Call(_UPSERT_TASK_POLICIES, {"policies": json.dumps(policies)})


def delete_old_crashes(age: float, batch: int) -> Call:
    """What was deleted comes back, at most a batch."""
    return Call(_DELETE_OLD_CRASHES, {"age": age, "batch": batch})


def delete_old_lost_workers(age: float, batch: int) -> Call:
    """What was deleted comes back, at most a batch."""
    return Call(_DELETE_OLD_LOST_WORKERS, {"age": age, "batch": batch})


def delete_dead_marks(batch: int) -> Call:
    """What was deleted comes back, at most a batch."""
    return Call(_DELETE_DEAD_MARKS, {"batch": batch})


def delete_old_worker_states(age: float, batch: int) -> Call:
    """What was deleted comes back, at most a batch."""
    return Call(_DELETE_OLD_WORKER_STATES, {"age": age, "batch": batch})


def delete_old_failed_jobs(age: float, *, after: int, batch: int) -> Call:
    """The ids of jobs that were deleted come back, at most a batch, all of them beyond `after`."""
    return Call(_DELETE_OLD_FAILED_JOBS, {"age": age, "after": after, "batch": batch})


def list_worker_states(worker_id: str | None, page_size: int) -> Call:
    """A row for each state comes back."""
    return Call(_LIST_WORKER_STATES, {"worker_id": worker_id, "page_size": page_size})


def _take_lock(lock_class: int, schema_name: str) -> Call:
    parameters = {"lock_class": lock_class, "schema_name": schema_name, "idle_seconds": IDLE_SECONDS}
    return Call(_TAKE_SWEEP_LOCK, parameters)
