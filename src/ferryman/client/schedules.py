"""`client.schedules`: schedules in the database, which every worker follows within a minute."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ferryman.client.adding import add_raw_job
from ferryman.client.operations import awaited, blocking
from ferryman.cron.crontab import Crontab
from ferryman.cron.due_minutes import payload_at
from ferryman.cron.parsing import parse_crontab
from ferryman.cron.stored import COLUMNS, columns_of, stored_from_row
from ferryman.errors import CrontabError, DuplicateScheduleError, UnknownScheduleError
from ferryman.jobs import MAX_KEY_LENGTH, check_text
from ferryman.queries import schedules as schedule_queries

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman.client.asynchronous import Client
    from ferryman.client.base import Core
    from ferryman.client.blocking import SyncClient
    from ferryman.database.steps import Row, Steps
    from ferryman.jobs import Job


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule in the database: a crontab, and when it last ran and next runs."""

    identifier: str
    """The name of the schedule."""
    is_paused: bool
    created_at: datetime
    updated_at: datetime
    last_run_at: datetime | None
    """The last minute for which it added a job; `run_now` does not count."""
    next_run_at: datetime | None
    """The next minute for which it adds a job; None if it is paused, never fires, or cannot be read."""
    readable: Crontab | None
    """The crontab; None if its row cannot be read. Such a schedule adds no jobs, and can be changed or removed."""
    problem: str | None = None
    """Why its row cannot be read; None if it can."""

    @property
    def crontab(self) -> Crontab:
        """The timing, the task and the payload; `CrontabError` if the row in the database cannot be read."""
        if self.readable is None:
            raise CrontabError(
                f"the schedule {self.identifier!r} cannot be read, and adds no jobs: {self.problem}. "
                f"Change or remove it."
            )
        return self.readable


@dataclass(frozen=True, slots=True)
class KnownCrontab:
    """A crontab that a worker has registered. The database knows its name and when it fired, nothing else."""

    identifier: str
    known_since: datetime
    last_run_at: datetime | None


def add(
    _core: Core, crontab: Crontab | str, *, paused: bool = False, take_over: bool = False, using: Any = None
) -> Steps[Schedule]:
    """Add a schedule: a `Crontab`, or a line such as `0 8 * * * send_report ?id=daily&fill=1h`.

    The crontab's id, or the task's identifier without one, is the name of the schedule. `DuplicateScheduleError` if
    another schedule has that name, or a worker has ever registered a crontab with it. Only minutes from now on count,
    also for `fill`.

    paused: True adds the schedule without running it yet
    take_over: True uses a name that a worker has registered, once no worker has that crontab any more
    """
    wanted = _one_crontab(crontab)
    rows = yield schedule_queries.add_schedule(columns_of(wanted), is_paused=paused, take_over=take_over).on(using)
    if rows:
        return _schedule(rows[0])
    name = wanted.identifier
    if (yield schedule_queries.list_schedules(name).on(using)):
        raise DuplicateScheduleError(
            f"the schedule {name!r} already exists; nothing was added. Change it, or give this one another id."
        )
    raise DuplicateScheduleError(
        f"{name!r} is the name of a crontab that a worker has registered; nothing was added. Give the schedule another "
        f"id, or pass take_over=True if no worker has that crontab any more."
    )


def change(_core: Core, identifier: str, crontab: Crontab | str, *, using: Any = None) -> Steps[Schedule]:
    """Replace the crontab of a schedule: timing, task, payload and options. Its name stays.

    After a change of timing or time zone, runs missed before it are not filled. A paused schedule stays paused.
    """
    _check_name(identifier)
    wanted = _one_crontab(crontab)
    if wanted.id not in {None, identifier}:
        raise CrontabError(
            f"a schedule keeps its name: this crontab has the id {wanted.id!r}, not {identifier!r}. Nothing was "
            f"changed. Leave the id out, or add a schedule of the new name."
        )
    rows = yield schedule_queries.change_schedule(columns_of(replace(wanted, id=identifier))).on(using)
    return _found(rows, identifier)


def pause(_core: Core, identifier: str, *, using: Any = None) -> Steps[Schedule]:
    """Pause a schedule. It adds no jobs after this commits; jobs already added stay."""
    _check_name(identifier)
    rows = yield schedule_queries.pause_schedule(identifier, is_paused=True).on(using)
    return _found(rows, identifier)


def resume(_core: Core, identifier: str, *, using: Any = None) -> Steps[Schedule]:
    """Resume a paused schedule. Runs that it missed while paused are not filled."""
    _check_name(identifier)
    rows = yield schedule_queries.pause_schedule(identifier, is_paused=False).on(using)
    return _found(rows, identifier)


def remove(_core: Core, identifier: str, *, using: Any = None) -> Steps[bool]:
    """Remove a schedule; False if there is none of that name. Jobs that it has added stay.

    Its history is removed too: a later schedule of the same name starts afresh.
    """
    _check_name(identifier)
    rows = yield schedule_queries.remove_schedule(identifier).on(using)
    return bool(rows)


def list_schedules(_core: Core, *, using: Any = None) -> Steps[list[Schedule]]:
    """List the schedules in the database, by name. Those whose rows cannot be read have a `problem`."""
    rows = yield schedule_queries.list_schedules().on(using)
    return [_schedule(row) for row in rows]


def known(_core: Core, *, using: Any = None) -> Steps[list[KnownCrontab]]:
    """List the crontabs that workers have registered, Node's included."""
    rows = yield schedule_queries.list_known_crontabs().on(using)
    return [KnownCrontab(*row) for row in rows]


def run_now(core: Core, identifier: str, *, using: Any = None) -> Steps[Job]:
    """Add the job of a schedule now, even if it is paused. Its next regular run does not change."""
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
        raise CrontabError(
            f"a schedule is a Crontab or a line of crontab text, not {type(given).__name__}. Nothing was changed."
        )
    crontabs = parse_crontab(given)
    if len(crontabs) != 1:
        raise CrontabError(
            f"one line of crontab text is expected; this has {len(crontabs)}, so nothing was changed. Add them one by "
            f"one."
        )
    return crontabs[0]


def _check_name(identifier: str) -> None:
    check_text("identifier", identifier, MAX_KEY_LENGTH)


def _found(rows: Any, identifier: str) -> Schedule:
    if not rows:
        raise UnknownScheduleError(
            f"the database has no schedule {identifier!r}; nothing was done. `ferryman cron list` shows the schedules. "
            f"A crontab that a worker registers can only be changed in the worker's code."
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


class Schedules:
    """The schedules in the database: add, change, pause and remove them while workers run.

        await client.schedules.add("0 8 * * 1-5 send_report ?fill=1h&tz=Europe/Paris {to: 'team'}")

    Every worker follows them within a minute, without a restart. All methods take `using=`.
    """

    add = awaited(add)
    change = awaited(change)
    pause = awaited(pause)
    resume = awaited(resume)
    remove = awaited(remove)
    list = awaited(list_schedules, "list")
    known = awaited(known)
    run_now = awaited(run_now)

    def __init__(self, client: Client) -> None:
        self._core = client._core  # noqa: SLF001 - methods of the client in all but name
        self._perform = client._perform  # noqa: SLF001


class SyncSchedules:
    """`Schedules` for code without an event loop: the same methods, blocking."""

    add = blocking(add)
    change = blocking(change)
    pause = blocking(pause)
    resume = blocking(resume)
    remove = blocking(remove)
    list = blocking(list_schedules, "list")
    known = blocking(known)
    run_now = blocking(run_now)

    def __init__(self, client: SyncClient) -> None:
        self._core = client._core  # noqa: SLF001 - methods of the client in all but name
        self._perform = client._perform  # noqa: SLF001
