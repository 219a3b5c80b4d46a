"""Statements of a worker's heartbeat, and of the watcher among the workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ferryman.queries import query
from ferryman.queries.advisory_locks import SESSION_CLASS, SWEEP_LOCK_CLASS, WATCH_CLASS, watch_key
from ferryman.queries.literals import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ferryman.database.identifiers import SchemaName
    from ferryman.queries import Parameters

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WatchStep: TypeAlias = Literal["keep", "try", "leave", "none"]


class LockHolder(NamedTuple):
    """A session that holds an advisory lock of recovery; see `list_lock_holders.sql`."""

    lock: Literal["sweep", "watch"]
    pid: int
    application_name: str
    role: str
    is_worker: bool
    in_transaction: bool
    seconds: float | None


@query
def prepare_beat_session(backend_pid: int, statement_seconds: float) -> Parameters:
    """Set up a session for heartbeats. Returns one row: the server process that answered, and what was set."""
    return {"backend_pid": backend_pid, "statement_milliseconds": str(round(statement_seconds * 1000))}


@query
def hold_session_key(key: int) -> Parameters:
    """Take the worker's session lock. Returns one row: whether this session has it now."""
    return {"class": SESSION_CLASS, "key": key}


@query
def register_worker(worker_id: str, metadata: Mapping[str, Any]) -> Parameters:
    """Add the worker's row. Returns nothing."""
    return {"worker_id": worker_id, "metadata": json_text(metadata)}


@query
def rejoin_worker(worker_id: str, metadata: Mapping[str, Any]) -> Parameters:
    """Update the worker's row. Returns it, if it still exists."""
    return {"worker_id": worker_id, "metadata": json_text(metadata)}


@query
def deregister_worker(worker_id: str) -> Parameters:
    """Remove the worker's row. Returns nothing of interest."""
    return {"worker_id": worker_id}


@query
def pulse(
    worker_id: str, *, is_due: bool, watch_step: WatchStep, watch_key: int, state: Mapping[str, Any] | None = None
) -> Parameters:
    """Send a heartbeat. Returns one row: is the worker registered, is it the watcher, are there foreign workers.

    state: what the worker is doing, to be stored with the heartbeat; see _ferryman_worker_states.sql
    """
    return _pulse(worker_id, is_due, watch_step, watch_key, state)


@query
def look_at_workers(
    worker_id: str,
    *,
    is_due: bool,
    watch_step: WatchStep,
    watch_key: int,
    is_full: bool,
    old_after: float,
    state: Mapping[str, Any] | None = None,
) -> Parameters:
    """Send a heartbeat and look at other workers. Returns the row of `pulse` for each worker that may be dead.

    What is known of that worker stands before the last column, or nulls in the only row if there is none.
    """
    return {
        **_pulse(worker_id, is_due, watch_step, watch_key, state),
        "is_watching": watch_step == "keep",
        "session_class": SESSION_CLASS,
        "is_full": is_full,
        "old_after": old_after,
    }


@query
def find_foreign_workers() -> Parameters:
    """Find registered workers that do not store their heartbeat interval. Returns at most ten ids."""
    return {}


@query
def free_watch(watch_key: int) -> Parameters:
    """End sessions that hold the watcher's lock without being a worker's. Returns a row for each one."""
    return {"session_class": SESSION_CLASS, "watch_class": WATCH_CLASS, "watch_key": watch_key}


@query
def note_silence(silences: Sequence[tuple[str, datetime, float]]) -> Parameters:
    """Store for how long workers were observed to be silent. Returns what was stored.

    silences: worker id, its newest heartbeat, and seconds
    """
    given = [
        {"id": worker_id, "beat": (beat - _EPOCH) // timedelta(microseconds=1), "seconds": seconds}
        for worker_id, beat, seconds in silences
    ]
    return {"silences": json_text(given)}


@query
def list_lock_holders(schema: SchemaName) -> Parameters:
    """List the sessions that hold advisory locks of recovery. Returns a row for each `LockHolder`."""
    return {
        "sweep_class": SWEEP_LOCK_CLASS,
        "schema_name": schema.name,
        "watch_class": WATCH_CLASS,
        "watch_key": watch_key(schema),
        "session_class": SESSION_CLASS,
    }


def _pulse(
    worker_id: str, is_due: bool, watch_step: WatchStep, watch_key: int, state: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "is_due": is_due,
        "watch_step": watch_step,
        "watch_class": WATCH_CLASS,
        "watch_key": watch_key,
        "state": None if state is None else json_text(state),
    }
