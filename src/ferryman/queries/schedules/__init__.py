"""Statements about crontabs: which are due, what was added, and the schedules that are stored in the database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman.queries import query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from ferryman.queries import Parameters


@query
def read_crontabs(identifiers: Sequence[str]) -> Parameters:
    """Read the time and crontabs: those of these names, and those stored in the database. Returns a row for each."""
    return {"identifiers": list(identifiers)}


@query
def register_crontabs(identifiers: Sequence[str], since: datetime) -> Parameters:
    """Record since when crontabs are known. Returns nothing."""
    return {"identifiers": list(identifiers), "since": since}


@query
def limit_lock_waits(limit: timedelta) -> Parameters:
    """Limit how long this transaction waits for a lock. Returns one row of no interest."""
    return {"milliseconds": max(1, limit // timedelta(milliseconds=1))}


@query
def schedule_crontabs(occurrences: str) -> Parameters:
    """Add the jobs of due crontabs. Returns one row.

    It has the places of those that were added, the ids of their jobs, and the names of unknown crontabs.
    """
    return {"occurrences": occurrences}


@query
def add_schedule(columns: Mapping[str, Any], *, is_paused: bool, take_over: bool) -> Parameters:
    """Store a schedule. Returns its row of `parts/schedule_columns.sql`; none if the name is taken."""
    return {**columns, "is_paused": is_paused, "take_over": take_over}


@query
def change_schedule(columns: Mapping[str, Any]) -> Parameters:
    """Change a stored schedule. Returns its row of `parts/schedule_columns.sql`; none if it does not exist."""
    return columns


@query
def pause_schedule(identifier: str, *, is_paused: bool) -> Parameters:
    """Pause or resume a stored schedule. Returns its row of `parts/schedule_columns.sql`; none if it does not exist."""
    return {"identifier": identifier, "is_paused": is_paused}


@query
def remove_schedule(identifier: str) -> Parameters:
    """Remove a stored schedule. Returns its name; nothing if it does not exist."""
    return {"identifier": identifier}


@query
def list_schedules(identifier: str | None = None) -> Parameters:
    """List stored schedules, or read one. Returns rows of `parts/schedule_columns.sql`."""
    return {"identifier": identifier}


@query
def list_known_crontabs() -> Parameters:
    """List crontabs that have ever been scheduled. Returns name, since when it is known, and when it last fired."""
    return {}
