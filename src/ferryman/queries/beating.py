"""Calls of a worker's signs of life."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call
from ferryman.queries.recovering import SESSION_CLASS, SWEEP_LOCK_CLASS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ferryman.database.identifiers import SchemaName

WATCH_CLASS = 0x46525754
"""The class of the advisory lock of the one that watches the others; the other half stands for the schema."""
LARGEST_KEY = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WatchStep: TypeAlias = Literal["keep", "try", "leave", "none"]

_SETTLE_SESSION = load_statement(__package__, "settle_beat_session")
_HOLD_SESSION_KEY = load_statement(__package__, "hold_session_key")
_REGISTER = load_statement(__package__, "register_worker")
_REJOIN = load_statement(__package__, "rejoin_worker")
_DEREGISTER = load_statement(__package__, "deregister_worker")
_PULSE = load_statement(__package__, "pulse")
_LOOK = load_statement(__package__, "look")
_FIND_FOREIGN_WORKERS = load_statement(__package__, "find_foreign_workers")
_FREE_WATCH = load_statement(__package__, "free_watch")
_NOTE_SILENCE = load_statement(__package__, "note_silence")
_LOCK_HOLDERS = load_statement(__package__, "lock_holders")


class LockHolder(NamedTuple):
    """A session that holds an advisory lock of recovery; see `lock_holders.sql`."""

    lock: Literal["sweep", "watch"]
    pid: int
    application_name: str
    role: str
    is_worker: bool
    in_transaction: bool
    seconds: float | None


def watch_key(schema: SchemaName) -> int:
    """The same number for all workers of a schema. Not negative: a lock's number is unsigned when it is looked at."""
    return zlib.crc32(schema.name.encode()) & LARGEST_KEY


def settle_session(backend_pid: int, statement_seconds: float) -> Call:
    """Settings for a connection that is ours alone. One row comes back: the process that answered, and what was set."""
    milliseconds = str(round(statement_seconds * 1000))
    return Call(_SETTLE_SESSION, {"backend_pid": backend_pid, "statement_milliseconds": milliseconds})


def hold_session_key(key: int) -> Call:
    """One row comes back: whether the lock is ours now."""
    return Call(_HOLD_SESSION_KEY, {"class": SESSION_CLASS, "key": key})


def register_worker(worker_id: str, metadata: Mapping[str, Any]) -> Call:
    """Add the worker's row."""
    return Call(_REGISTER, {"worker_id": worker_id, "metadata": _json(metadata)})


def rejoin_worker(worker_id: str, metadata: Mapping[str, Any]) -> Call:
    """Its row comes back, if there is one."""
    return Call(_REJOIN, {"worker_id": worker_id, "metadata": _json(metadata)})


def deregister_worker(worker_id: str) -> Call:
    """Remove the worker's row."""
    return Call(_DEREGISTER, {"worker_id": worker_id})


def pulse(
    worker_id: str, *, is_due: bool, watch_step: WatchStep, watch_key: int, state: Mapping[str, Any] | None = None
) -> Call:
    """One row comes back: whether the worker is registered, whether the watch is its own, whether others are foreign.

    state: what the worker is doing, to be written down with the beat; see _ferryman_worker_states.sql
    """
    return Call(_PULSE, _pulse_parameters(worker_id, is_due, watch_step, watch_key, state))


def look(
    worker_id: str,
    *,
    is_due: bool,
    watch_step: WatchStep,
    watch_key: int,
    is_full: bool,
    old_after: float,
    state: Mapping[str, Any] | None = None,
) -> Call:
    """A pulse that looks at others as well: before its last word, each row has a worker that may be dead, or nulls."""
    parameters = {
        **_pulse_parameters(worker_id, is_due, watch_step, watch_key, state),
        "is_watching": watch_step == "keep",
        "session_class": SESSION_CLASS,
        "is_full": is_full,
        "old_after": old_after,
    }
    return Call(_LOOK, parameters)


def find_foreign_workers() -> Call:
    """The ids of registered workers that do not say how often they beat come back, ten at most."""
    return Call(_FIND_FOREIGN_WORKERS)


def free_watch(watch_key: int) -> Call:
    """A row comes back for each session that was ended."""
    return Call(_FREE_WATCH, {"session_class": SESSION_CLASS, "watch_class": WATCH_CLASS, "watch_key": watch_key})


def note_silence(silences: Sequence[tuple[str, datetime, float]]) -> Call:
    """Each is a worker, its newest beat, and the seconds for which that was observed. What was noted comes back."""
    given = [
        {"id": worker_id, "beat": (beat - _EPOCH) // timedelta(microseconds=1), "seconds": seconds}
        for worker_id, beat, seconds in silences
    ]
    return Call(_NOTE_SILENCE, {"silences": _json(given)})


def lock_holders(schema: SchemaName) -> Call:
    """A row for each `LockHolder` comes back."""
    parameters = {
        "sweep_class": SWEEP_LOCK_CLASS,
        "schema_name": schema.name,
        "watch_class": WATCH_CLASS,
        "watch_key": watch_key(schema),
        "session_class": SESSION_CLASS,
    }
    return Call(_LOCK_HOLDERS, parameters)


def _pulse_parameters(
    worker_id: str, is_due: bool, watch_step: WatchStep, watch_key: int, state: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "is_due": is_due,
        "watch_step": watch_step,
        "watch_class": WATCH_CLASS,
        "watch_key": watch_key,
        "state": None if state is None else _json(state),
    }


def _json(metadata: object) -> str:
    return msgspec.json.encode(metadata).decode()
