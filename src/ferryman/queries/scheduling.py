"""Calls about crontabs: what is due, what was added, and those that are kept in the database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

_READ_CRONTABS = load_statement(__package__, "read_crontabs")
_REGISTER_CRONTABS = load_statement(__package__, "register_crontabs")
_LIMIT_LOCK_WAITS = load_statement(__package__, "limit_lock_waits")
_SCHEDULE_CRONTABS = load_statement(__package__, "schedule_crontabs")
_ADD_SCHEDULE = load_statement(__package__, "add_schedule")
_CHANGE_SCHEDULE = load_statement(__package__, "change_schedule")
_PAUSE_SCHEDULE = load_statement(__package__, "pause_schedule")
_REMOVE_SCHEDULE = load_statement(__package__, "remove_schedule")
_LIST_SCHEDULES = load_statement(__package__, "list_schedules")
_LIST_KNOWN_CRONTABS = load_statement(__package__, "list_known_crontabs")


def read_crontabs(identifiers: Sequence[str]) -> Call:
    """The time, and a row for each crontab: those of these names, and those kept in the database."""
    return Call(_READ_CRONTABS, {"identifiers": list(identifiers)})


def register_crontabs(identifiers: Sequence[str], since: datetime) -> Call:
    """Nothing comes back."""
    return Call(_REGISTER_CRONTABS, {"identifiers": list(identifiers), "since": since})


def limit_lock_waits(limit: timedelta) -> Call:
    """One row of no interest comes back. It counts until the end of the transaction."""
    return Call(_LIMIT_LOCK_WAITS, {"milliseconds": max(1, limit // timedelta(milliseconds=1))})


def schedule_crontabs(occurrences: str) -> Call:
    """One row comes back: places that were added, the ids of their jobs, and the names of unknown crontabs."""
    return Call(_SCHEDULE_CRONTABS, {"occurrences": occurrences})


def add_schedule(columns: Mapping[str, Any], *, is_paused: bool, take_over: bool, using: Any) -> Call:
    """A row of `schedule_columns.sql` comes back; none when the name is taken."""
    return Call(_ADD_SCHEDULE, {**columns, "is_paused": is_paused, "take_over": take_over}, using)


def change_schedule(columns: Mapping[str, Any], *, using: Any) -> Call:
    """A row of `schedule_columns.sql` comes back; none when there is no such schedule."""
    return Call(_CHANGE_SCHEDULE, columns, using)


def pause_schedule(identifier: str, *, is_paused: bool, using: Any) -> Call:
    """A row of `schedule_columns.sql` comes back; none when there is no such schedule."""
    return Call(_PAUSE_SCHEDULE, {"identifier": identifier, "is_paused": is_paused}, using)


def remove_schedule(identifier: str, *, using: Any) -> Call:
    """Its name comes back; nothing when there is no such schedule."""
    return Call(_REMOVE_SCHEDULE, {"identifier": identifier}, using)


def list_schedules(identifier: str | None = None, *, using: Any) -> Call:
    """Rows of `schedule_columns.sql` come back."""
    return Call(_LIST_SCHEDULES, {"identifier": identifier}, using)


def list_known_crontabs(*, using: Any) -> Call:
    """Names, since when they are known, and when they last fired."""
    return Call(_LIST_KNOWN_CRONTABS, {}, using)
