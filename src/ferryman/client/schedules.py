"""Schedules that are kept in the database, and followed by every worker within a minute."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ferryman.client.adding import add_raw_job
from ferryman.cron.crontab import Crontab
from ferryman.cron.parsing import parse_crontab
from ferryman.cron.scheduling import payload_at
from ferryman.cron.stored import COLUMNS, columns_of, stored_from_row
from ferryman.errors import CrontabError, DuplicateScheduleError, UnknownScheduleError
from ferryman.jobs import MAX_KEY_LENGTH, check_text
from ferryman.queries import schedules as schedule_queries

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman.client.core import Core
    from ferryman.database.steps import Row, Steps
    from ferryman.jobs import Job


@dataclass(frozen=True, slots=True)
class Schedule:
    """A crontab that is kept in the database."""

    identifier: str
    """Its name."""
    is_paused: bool
    created_at: datetime
    updated_at: datetime
    last_run_at: datetime | None
    """The last minute that it added a job for; `run_now` does not count."""
    next_run_at: datetime | None
    """The next minute that it adds a job for; None when it is paused, never fires, or cannot be read."""
    readable: Crontab | None
    """The crontab; None if its row cannot be read. The schedule adds no jobs then, and can be changed or removed."""
    problem: str | None = None
    """Why its row cannot be read; None if it can."""

    @property
    def crontab(self) -> Crontab:
        """The crontab; `CrontabError` if its row cannot be read."""
        if self.readable is None:
            raise CrontabError(
                f"the schedule {self.identifier!r} cannot be read, and adds no jobs: {self.problem}. "
                f"Change or remove it."
            )
        return self.readable


@dataclass(frozen=True, slots=True)
class KnownCrontab:
    """A crontab that workers bring along: the database knows its name and when it fired, and no more."""

    identifier: str
    known_since: datetime
    last_run_at: datetime | None


def add(
    _core: Core, crontab: Crontab | str, *, paused: bool = False, take_over: bool = False, using: Any = None
) -> Steps[Schedule]:
    """Keep a crontab in the database: a `Crontab`, or a line such as `0 8 * * * send_report ?id=daily&fill=1h`.

    Its identifier, the task's unless an id is given, is the name of the schedule. `DuplicateScheduleError` when another
    schedule has that name, or a crontab that workers bring along had it at any time; `take_over` is for when they do so
    no longer. Minutes from now on count, also for `fill`.

    paused: True adds it without letting it run yet
    """
    wanted = _one_crontab(crontab)
    rows = yield schedule_queries.add_schedule(columns_of(wanted), is_paused=paused, take_over=take_over).on(using)
    if rows:
        return _schedule(rows[0])
    name = wanted.identifier
    if (yield schedule_queries.list_schedules(name).on(using)):
        raise DuplicateScheduleError(
            f"there is a schedule {name!r} already; nothing was added. Change that one, or give this one another id."
        )
    raise DuplicateScheduleError(
        f"{name!r} is, or was, the name of a crontab that workers bring along; nothing was added. Give the schedule "
        f"another id, or pass take_over=True when no worker has that crontab any more."
    )


def change(_core: Core, identifier: str, crontab: Crontab | str, *, using: Any = None) -> Steps[Schedule]:
    """Give a schedule another crontab: timing, task, payload and options, all of them. Its name stays.

    What was missed before a change of the timing or the time zone is not made up for. A paused one stays paused.
    """
    _check_name(identifier)
    wanted = _one_crontab(crontab)
    if wanted.id not in {None, identifier}:
        raise CrontabError(f"a schedule keeps its name: this crontab has the id {wanted.id!r}, not {identifier!r}")
    rows = yield schedule_queries.change_schedule(columns_of(replace(wanted, id=identifier))).on(using)
    return _found(rows, identifier)


def pause(_core: Core, identifier: str, *, using: Any = None) -> Steps[Schedule]:
    """Let a schedule add no more jobs. From the moment that this is committed none comes; those that are there stay."""
    _check_name(identifier)
    rows = yield schedule_queries.pause_schedule(identifier, is_paused=True).on(using)
    return _found(rows, identifier)


def resume(_core: Core, identifier: str, *, using: Any = None) -> Steps[Schedule]:
    """Let a paused schedule go on. What it missed meanwhile is not made up for."""
    _check_name(identifier)
    rows = yield schedule_queries.pause_schedule(identifier, is_paused=False).on(using)
    return _found(rows, identifier)


def remove(_core: Core, identifier: str, *, using: Any = None) -> Steps[bool]:
    """Remove a schedule; False when there is none of that name. Jobs that it has added stay.

    When it fired is forgotten too: one that gets its name later starts afresh.
    """
    _check_name(identifier)
    rows = yield schedule_queries.remove_schedule(identifier).on(using)
    return bool(rows)


def list_schedules(_core: Core, *, using: Any = None) -> Steps[list[Schedule]]:
    """All schedules that are kept in the database, by name; those whose rows cannot be read have a `problem`."""
    rows = yield schedule_queries.list_schedules().on(using)
    return [_schedule(row) for row in rows]


def known(_core: Core, *, using: Any = None) -> Steps[list[KnownCrontab]]:
    """The crontabs that workers bring along, Node's included, as far as the database has heard of them."""
    rows = yield schedule_queries.list_known_crontabs().on(using)
    return [KnownCrontab(*row) for row in rows]


def run_now(core: Core, identifier: str, *, using: Any = None) -> Steps[Job]:
    """Add the job of a schedule at once, paused or not. When it fires next does not change."""
    _check_name(identifier)
    rows = yield schedule_queries.list_schedules(identifier).on(using)
    crontab, now = _found(rows, identifier).crontab, rows[0][-1]
    payload = json.loads(payload_at(crontab, now, is_backfilled=False))
    job = yield from add_raw_job(core, crontab.task_identifier, payload, crontab.job_spec(), using=using)
    return job


def _one_crontab(given: Crontab | str) -> Crontab:
    if isinstance(given, Crontab):
        return given
    if not isinstance(given, str):
        raise CrontabError(f"a schedule is a Crontab or a line of crontab text, not {type(given).__name__}")
    crontabs = parse_crontab(given)
    if len(crontabs) != 1:
        raise CrontabError(f"one line of crontab text is expected; this has {len(crontabs)}. Add them one by one.")
    return crontabs[0]


def _check_name(identifier: str) -> None:
    check_text("identifier", identifier, MAX_KEY_LENGTH)


def _found(rows: Any, identifier: str) -> Schedule:
    if not rows:
        raise UnknownScheduleError(
            f"no schedule {identifier!r} is kept in the database; nothing was done. `ferryman cron list` shows those "
            f"that are; crontabs that workers bring along can only be changed where they are written."
        )
    return _schedule(rows[0])


def _schedule(row: Row) -> Schedule:
    identifier = row[0]
    is_paused, created_at, updated_at, last_run_at, now = row[COLUMNS:]
    try:
        crontab = stored_from_row(row[:COLUMNS]).crontab
    except CrontabError as error:
        return Schedule(identifier, is_paused, created_at, updated_at, last_run_at, None, None, str(error))
    # A clock that was ahead has fired some minutes already.
    since = now if last_run_at is None else max(now, last_run_at)
    following = None if is_paused else crontab.next_after(since)
    return Schedule(identifier, is_paused, created_at, updated_at, last_run_at, following, crontab)
