"""Adds the jobs of crontabs, minute by minute, together with every other worker on the schema.

There is no leader: all workers try, and the row of a crontab in the database decides which of them was first. The
database's clock decides which minute it is, so a worker with a wrong clock does no harm. An idle scheduler sends one
statement per minute, which reads the clock and the schedules in the database.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from ferryman.cron.clock import SystemClock
from ferryman.cron.due_minutes import (
    GRACE,
    MINUTE,
    Entry,
    crontabs_from,
    due_occurrences,
    floor_minute,
    lost_minutes,
    register,
    schedule,
)
from ferryman.cron.stored import COLUMNS, stored_from_row
from ferryman.database.failures import DATA_ERRORS, LOCK_NOT_AVAILABLE, sqlstate_of
from ferryman.database.retrying import Retrying
from ferryman.database.timed import TimedDatabase
from ferryman.errors import CrontabError, DatabaseError
from ferryman.hooks import CronJobScheduled, CronTick
from ferryman.hooks.reporting import Teller
from ferryman.queries.schedules import read_crontabs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ferryman.client import Client
    from ferryman.cron.clock import Clock
    from ferryman.cron.crontab import Crontab
    from ferryman.cron.due_minutes import Occurrence
    from ferryman.cron.stored import StoredCrontab
    from ferryman.database.steps import Row
    from ferryman.hooks import HookRegistry

logger = logging.getLogger("ferryman.cron")

JOBS_PER_STATEMENT = 500
LOCK_WAIT = timedelta(seconds=1)
"""How long a statement waits for rows that another transaction has locked. Then each crontab is tried by itself."""
SHORT_LOCK_WAIT = timedelta(milliseconds=100)
"""The same for a statement about one crontab: there can be many, and each delays the others."""
RETRY_HELD_UP = timedelta(seconds=10)
"""When a crontab is tried again whose rows another transaction has locked."""
_GRAPHILE_ERRORS = "GW"
"""The class of SQLSTATE of Graphile's own functions, which blame the data too."""


class CronScheduler:
    """Adds the jobs of a worker's crontabs, and of the schedules in the database.

    crontabs: the worker's own; `ConfigurationError` if two of them have the same identifier
    clock: waits for the next minute; with `use_local_time` it also decides which minute it is
    """

    def __init__(
        self,
        client: Client,
        crontabs: Iterable[Crontab | str] | Crontab | str = (),
        *,
        hooks: HookRegistry,
        clock: Clock | None = None,
        use_local_time: bool = False,
    ) -> None:
        self._own = {crontab.identifier: crontab for crontab in crontabs_from(crontabs)}
        self.teller = Teller(hooks)
        self._database = TimedDatabase(client.pool, client.schema)
        self._retrying = Retrying("scheduling crontabs", logger=logger)
        self._clock = SystemClock() if clock is None else clock
        self._use_local_time = use_local_time
        self._stored = _StoredCrontabs(self._own)
        self._covered: datetime | None = None
        self._held_up: dict[str, datetime | None] = {}
        """Crontabs whose rows another transaction has locked, each with its last covered minute; None if it is new."""
        self._complained: set[str] = set()
        """Held-up crontabs that were logged."""
        self._announced: datetime | None = None

    async def run(self) -> None:
        """Add the jobs that are due, minute after minute, until cancelled. Database errors never end it."""
        try:
            while True:
                try:
                    next_minute = await self.tick()
                except Exception as error:  # noqa: BLE001 - no error may end the scheduler
                    await asyncio.sleep(self._retrying.pause_after(error))
                    continue
                self._retrying.is_over()
                await self._clock.sleep_until(next_minute)
        finally:
            await self.teller.close()

    async def tick(self) -> datetime:
        """Add the jobs that are due, and return when to call it next. After an error it can be called again."""
        now, seen_at, entries = await self._read()
        if any(entry.known_since is None for entry in entries):
            now, seen_at, entries = await self._register(entries, now)
        minute = floor_minute(now)
        if self._covered is not None and minute < self._covered:
            # Minutes that have fired do not fire again: the database knows them.
            logger.warning(
                "the clock of the crontabs went back from %s to %s; minutes that have fired do not fire again",
                self._covered,
                minute,
                extra={"event": "clock_went_back"},
            )
            self._covered = None
            self._held_up = dict.fromkeys(self._held_up)
        named = {entry.crontab.identifier for entry in entries}
        self._held_up = {name: covered for name, covered in self._held_up.items() if name in named}
        if minute != self._covered or self._held_up:
            await self._cover(minute, now, [entry for entry in entries if entry.known_since is not None])
        following = seen_at + (minute + MINUTE - now)
        return min(following, seen_at + RETRY_HELD_UP) if self._held_up else following

    async def _cover(self, minute: datetime, now: datetime, entries: Sequence[Entry]) -> None:
        if self._announced != minute:
            self._announced = minute
            self.teller.tell(CronTick(timestamp=minute, crontabs=[entry.crontab for entry in entries]))
        waiting = {entry.crontab.identifier: entry for entry in entries if entry.crontab.identifier in self._held_up}
        if minute != self._covered:
            free = [entry for entry in entries if entry.crontab.identifier not in waiting]
            await self._add_due(free, self._covered, now, LOCK_WAIT)
            self._covered = minute
        # After the others, which do not wait for these.
        for name, entry in waiting.items():
            covered = self._held_up.pop(name)
            try:
                await self._add_due([entry], covered, now, SHORT_LOCK_WAIT)
            except BaseException:
                self._held_up[name] = covered
                raise
        self._complained &= self._held_up.keys()

    async def _add_due(
        self, entries: Sequence[Entry], covered: datetime | None, now: datetime, lock_wait: timedelta
    ) -> None:
        due = due_occurrences(entries, covered=covered, now=now)
        while some := list(islice(due, JOBS_PER_STATEMENT)):
            # If a later minute of a held-up crontab fired now, its earlier ones would be lost.
            if free := [one for one in some if one.crontab.identifier not in self._held_up]:
                await self._schedule(free, now, lock_wait)
        if covered is not None and covered < floor_minute(now) - GRACE:
            for entry in entries:
                self._log_lost(entry, covered, now)

    def _log_lost(self, entry: Entry, covered: datetime, now: datetime) -> None:
        if lost := lost_minutes(entry, covered=covered, now=now):
            logger.warning(
                "crontab %r adds no jobs for the minutes from %s to %s: they are more than %g min late, and its fill "
                "does not reach back that far. Set a longer fill to make up for such gaps",
                entry.crontab.identifier,
                *lost,
                GRACE.total_seconds() / 60,
                extra={"event": "crontab_minutes_lost", "crontab": entry.crontab.identifier},
            )

    async def _read(self) -> tuple[datetime, datetime, list[Entry]]:
        """Read the time, this clock at that moment, and all crontabs."""
        rows = await self._database.fetch(read_crontabs(list(self._own)))
        entries = [entry for row in rows if (entry := self._entry(row)) is not None]
        self._stored.forget_all_but({identifier for _, identifier, *_ in rows})
        seen_at = self._clock.now()
        # In UTC: the session's time zone can have daylight saving time, which would shift sums.
        now = seen_at if self._use_local_time else rows[0][0]
        return now.astimezone(UTC), seen_at, entries

    def _entry(self, row: Row) -> Entry | None:
        columns, (known_since, last_execution) = row[1 : 1 + COLUMNS], row[1 + COLUMNS :]
        identifier, revision, *_ = columns
        if identifier is None:
            return None
        if revision is None:
            return Entry(crontab=self._own[identifier], known_since=known_since, last_execution=last_execution)
        stored = self._stored.of(columns)
        if stored is None:
            return None
        return Entry(
            crontab=stored.crontab,
            revision=stored.revision,
            active_since=stored.active_since,
            known_since=known_since,
            last_execution=last_execution,
        )

    async def _register(self, entries: Sequence[Entry], now: datetime) -> tuple[datetime, datetime, list[Entry]]:
        """Register new crontabs, and read again: if another worker was first, its time counts."""
        await self._make_known([entry.crontab.identifier for entry in entries if entry.known_since is None], now)
        return await self._read()

    async def _make_known(self, names: Sequence[str], now: datetime, lock_wait: timedelta | None = None) -> None:
        try:
            await self._database.run(register(names, now, LOCK_WAIT if lock_wait is None else lock_wait))
        except DatabaseError as error:
            if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
                raise
            if len(names) == 1:
                self._hold_up(names[0], None)
                return
            for name in names:
                await self._make_known([name], now, SHORT_LOCK_WAIT)

    async def _schedule(self, occurrences: Sequence[Occurrence], now: datetime, lock_wait: timedelta) -> None:
        try:
            scheduled = await self._database.run(schedule(occurrences, lock_wait))
        except DatabaseError as error:
            if not (sqlstate_of(error) or "").startswith((*DATA_ERRORS, _GRAPHILE_ERRORS, LOCK_NOT_AVAILABLE)):
                raise
            await self._schedule_apart(occurrences, now, error)
            return
        self._tell(scheduled.added)
        if scheduled.unknown:
            # Their rows were deleted since they were read.
            await self._make_known(scheduled.unknown, now)
            names = {*scheduled.unknown} - self._held_up.keys()
            if again := [one for one in occurrences if one.crontab.identifier in names]:
                await self._schedule(again, now, lock_wait)

    async def _schedule_apart(self, occurrences: Sequence[Occurrence], now: datetime, error: DatabaseError) -> None:
        """Schedule each crontab by itself: PostgreSQL rejects one, or another transaction has locked its rows."""
        by_name: dict[str, list[Occurrence]] = {}
        for occurrence in occurrences:
            by_name.setdefault(occurrence.crontab.identifier, []).append(occurrence)
        if len(by_name) == 1 and sqlstate_of(error) == LOCK_NOT_AVAILABLE:
            [(name, own)] = by_name.items()
            self._hold_up(name, own[0].minute - MINUTE)
            return
        if len(by_name) == 1:
            logger.error(
                "crontab %r could not add its job, because PostgreSQL rejects it; the job is not retried, and the "
                "crontab continues at its next minute: %s",
                *by_name,
                error,
                extra={"event": "crontab_refused", "crontab": next(iter(by_name))},
            )
            return
        for some in by_name.values():
            await self._schedule(some, now, SHORT_LOCK_WAIT)

    def _hold_up(self, name: str, covered: datetime | None) -> None:
        self._held_up[name] = covered
        if name not in self._complained:
            self._complained.add(name)
            logger.warning(
                "crontab %r cannot add its jobs, because another transaction has locked its row, its schedule or the "
                "job with its key; retrying every %g s. Other crontabs continue",
                name,
                RETRY_HELD_UP.total_seconds(),
                extra={"event": "crontab_held_up", "crontab": name},
            )

    def _tell(self, added: Sequence[Occurrence]) -> None:
        for occurrence in added:
            logger.debug(
                "crontab %r added its job for %s",
                occurrence.crontab.identifier,
                occurrence.minute,
                extra={"event": "crontab_job_added", "crontab": occurrence.crontab.identifier},
            )
            self.teller.tell(CronJobScheduled(crontab=occurrence.crontab, scheduled_at=occurrence.minute))


class _StoredCrontabs:
    """The schedules of the database as they were last read. Each problem with one is logged once."""

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._read: dict[str, tuple[int, StoredCrontab | None]] = {}

    def of(self, columns: Row) -> StoredCrontab | None:
        """The schedule that these columns describe; None if it cannot be used."""
        identifier, revision, *_ = columns
        known = self._read.get(identifier)
        if known is None or known[0] != revision:
            known = self._read[identifier] = (revision, self._usable(columns))
        return known[1]

    def forget_all_but(self, identifiers: set[str]) -> None:
        """Forget schedules that were removed."""
        self._read = {name: read for name, read in self._read.items() if name in identifiers}

    def _usable(self, columns: Row) -> StoredCrontab | None:
        identifier = columns[0]
        if identifier in self._own:
            logger.error(
                "this worker does not use schedule %r of the database, because its own crontab of the same identifier "
                "takes precedence; remove the schedule, or give the crontab another id",
                identifier,
                extra={"event": "schedule_shadowed", "crontab": identifier},
            )
            return None
        try:
            return stored_from_row(columns)
        except CrontabError as error:
            complaint = "schedule %r of the database cannot be read and adds no jobs; change or remove it: %s"
            logger.error(complaint, identifier, error, extra={"event": "schedule_unreadable", "crontab": identifier})  # noqa: TRY400 - the error says all
            return None
