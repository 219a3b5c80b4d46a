"""Calls that look at the health of a queue and of its database, and that mend what can be mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call
from ferryman.queries.recovering import SESSION_CLASS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.statements import Statement


def _health_statement(name: str) -> Statement:
    return load_statement(__package__, f"health_{name}")


_BACKEND_PID = load_statement("ferryman.database", "backend_pid")
_ACCESS = _health_statement("access")
_UPKEEP = _health_statement("upkeep")
_SEQUENCES = _health_statement("sequences")
_WEDGED = _health_statement("wedged")
_FREE_WEDGED = _health_statement("free_wedged")
_SILENT_WORKERS = _health_statement("silent_workers")
_WAITING = _health_statement("waiting")
_LONG_LOCKS = _health_statement("long_locks")
_OLD_FAILED_JOBS = _health_statement("old_failed_jobs")
_KEY_INDEX = _health_statement("key_index")

# Statements without parameters; each file says what comes back.
SETTINGS = Call(_health_statement("settings"))
BACKEND_PID = Call(_BACKEND_PID)
SERVER = Call(_health_statement("server"))
CONNECTIONS = Call(_health_statement("connections"))
HORIZON = Call(_health_statement("horizon"))
SLOTS = Call(_health_statement("slots"))
HIDDEN_SESSIONS = Call(_health_statement("hidden_sessions"))
NOTIFICATIONS = Call(_health_statement("notifications"))
DEADLOCKS = Call(_health_statement("deadlocks"))
FREE_NUMBERS = Call(_health_statement("free_numbers"))
QUEUES = Call(_health_statement("queues"))
TASKS = Call(_health_statement("tasks"))
DANGLING = Call(_health_statement("dangling"))
FAILED_JOBS = Call(_health_statement("failed_jobs"))
POISONED = Call(_health_statement("poisoned"))
ODD_TIMES = Call(_health_statement("odd_times"))
LEFTOVERS = Call(_health_statement("leftovers"))
MEND_QUEUES = Call(_health_statement("mend_queues"))
MEND_TASKS = Call(_health_statement("mend_tasks"))
FORGET_LEFTOVERS = Call(_health_statement("forget_leftovers"))
KEYLESS_JOBS = Call(_health_statement("keyless_jobs"))
TUNING_SETTINGS = Call(_health_statement("tuning_settings"))
TUNE_KEY_INDEX = Call(_health_statement("tune_key_index"))
UNTUNE_KEY_INDEX = Call(_health_statement("untune_key_index"))


def access(schema_name: str, tables: Sequence[str]) -> Call:
    """A row for each table that is there comes back."""
    return Call(_ACCESS, {"name": schema_name, "tables": list(tables)})


def upkeep(schema_name: str, tables: Sequence[str]) -> Call:
    """A row for each table comes back."""
    return Call(_UPKEEP, {"name": schema_name, "tables": list(tables)})


def sequences(schema_name: str) -> Call:
    """A row for each sequence comes back."""
    return Call(_SEQUENCES, {"name": schema_name})


def wedged(schema_name: str, *, silent_for: float, locked_for: float) -> Call:
    """A row for each of the first wedged queues of each kind comes back."""
    return Call(_WEDGED, {"name": schema_name, "silent_for": silent_for, "locked_for": locked_for})


def free_wedged(*, silent_for: float, locked_for: float) -> Call:
    """The names of the queues that were freed come back."""
    return Call(_FREE_WEDGED, {"silent_for": silent_for, "locked_for": locked_for})


def silent_workers(silent_for: float) -> Call:
    """A row for each silent worker comes back."""
    return Call(_SILENT_WORKERS, {"silent_for": silent_for, "session_class": SESSION_CLASS})


def waiting(*, waiting_for: float, silent_for: float) -> Call:
    """A row for each task with jobs that wait comes back."""
    parameters = {"waiting_for": waiting_for, "silent_for": silent_for, "session_class": SESSION_CLASS}
    return Call(_WAITING, parameters)


def long_locks(*, locked_for: float, silent_for: float) -> Call:
    """A row for each holder comes back."""
    return Call(_LONG_LOCKS, {"locked_for": locked_for, "silent_for": silent_for})


def old_failed_jobs(failed_for: float) -> Call:
    """A row for each task comes back."""
    return Call(_OLD_FAILED_JOBS, {"failed_for": failed_for})


def key_index(schema_name: str) -> Call:
    """A row about the index of job keys comes back; none without the table of jobs."""
    return Call(_KEY_INDEX, {"name": schema_name})
