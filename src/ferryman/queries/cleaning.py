"""Calls that clear away what nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELETE_UNKNOWN_TASKS = load_statement(__package__, "delete_unknown_tasks")
_DELETE_UNUSED_TASKS = load_statement(__package__, "delete_unused_tasks")
_DELETE_UNUSED_QUEUES = load_statement(__package__, "delete_unused_queues")
_DELETE_FAILED_JOBS = load_statement(__package__, "delete_failed_jobs")

LOCK_TASKS = Script(load_statement(__package__, "lock_tasks"))
LOCK_QUEUES = Script(load_statement(__package__, "lock_queues"))


def delete_unknown_tasks(kept: Sequence[str]) -> Call:
    """The identifiers that were deleted come back."""
    return Call(_DELETE_UNKNOWN_TASKS, {"kept": list(kept)})


def delete_unused_tasks(kept: Sequence[str]) -> Call:
    """The same on a schema without our extensions."""
    return Call(_DELETE_UNUSED_TASKS, {"kept": list(kept)})


def delete_unused_queues() -> Call:
    """The names of the queues that were deleted come back."""
    return Call(_DELETE_UNUSED_QUEUES)


def delete_failed_jobs(age: float | None = None) -> Call:
    """How many were deleted comes back. Those that failed less than `age` seconds ago stay."""
    return Call(_DELETE_FAILED_JOBS, {"age": age})
