"""Adds the jobs of crontabs, minute by minute, together with every other worker on the schema.

Nobody is in charge: all workers try, and the row of a crontab in the database decides who was first. The database's
clock says which minute it is, so that workers whose clocks are wrong do no harm. It is asked once a minute, together
with the schedules that are kept there, and that is all that an idle scheduler costs.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from ferryman.cron.clock import SystemClock
from ferryman.cron.scheduling import (
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
from ferryman.database.failures import DATA_ERRORS, sqlstate_of
from ferryman.database.retrying import Retrying
from ferryman.database.timed import TimedDatabase
from ferryman.errors import CrontabError, DatabaseError
from ferryman.hooks import CronJobScheduled, CronTick
from ferryman.hooks.reporting import Teller
from ferryman.queries import scheduling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ferryman.client import Client
    from ferryman.cron.clock import Clock
    from ferryman.cron.crontab import Crontab
    from ferryman.cron.scheduling import Occurrence
    from ferryman.cron.stored import StoredCrontab
    from ferryman.database.steps import Row
    from ferryman.hooks import HookRegistry

logger = logging.getLogger("ferryman.cron")

JOBS_PER_STATEMENT = 500
LOCK_WAIT = timedelta(seconds=1)
"""How long a statement waits for rows that another transaction holds before each crontab is tried by itself."""
SHORT_LOCK_WAIT = timedelta(milliseconds=100)
"""The same for a statement about one crontab: there may be many of them, and the others wait meanwhile."""
RETRY_HELD_UP = timedelta(seconds=10)
"""How soon a crontab is tried again whose rows another transaction held."""
_LOCK_NOT_AVAILABLE = "55P03"
_GRAPHILE_ERRORS = "GW"
"""The class of SQLSTATE of Graphile's own functions, which blame the data too."""


class CronScheduler:
    """Schedules the crontabs of a worker, and those that are kept in the database.

    crontabs: those that the worker brings along; `ConfigurationError` when two of them have one identifier
    clock: how to wait; with `use_local_time` also which minute it is
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
        """Crontabs whose rows another transaction holds, with the minute up to which each is covered; None if new."""
        self._complained: set[str] = set()
        """Those of them that the log has named."""
        self._announced: datetime | None = None

    async def run(self) -> None:
        """Schedule what is due, minute after minute, until cancelled. Trouble with the database never ends it."""
        try:
            while True:
                try:
                    next_minute = await self.tick()
                except Exception as error:  # noqa: BLE001 - whatever goes wrong must not end the schedule
                    await asyncio.sleep(self._retrying.pause_after(error))
                    continue
                self._retrying.is_over()
                await self._clock.sleep_until(next_minute)
        finally:
            await self.teller.close()

    async def tick(self) -> datetime:
        """Schedule what is due, and say when to come again, by our clock. Whatever fails can be tried again."""
        now, seen_at, entries = await self._read()
        if any(entry.known_since is None for entry in entries):
            now, seen_at, entries = await self._register(entries, now)
        minute = floor_minute(now)
        if self._covered is not None and minute < self._covered:
            # What was scheduled already is not scheduled again: the database knows.
            logger.warning(
                "the clock went back, from the minute %s to %s",
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
        # After the others, which need not wait for them.
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
            # A later minute of a crontab that was held up just now would pass over the earlier ones.
            if free := [one for one in some if one.crontab.identifier not in self._held_up]:
                await self._schedule(free, now, lock_wait)
        if covered is not None and covered < floor_minute(now) - GRACE:
            for entry in entries:
                self._log_lost(entry, covered, now)

    def _log_lost(self, entry: Entry, covered: datetime, now: datetime) -> None:
        if lost := lost_minutes(entry, covered=covered, now=now):
            logger.warning(
                "the crontab %r added no jobs from %s to %s: they could not be added within %g min, and its fill does "
                "not reach back so far",
                entry.crontab.identifier,
                *lost,
                GRACE.total_seconds() / 60,
                extra={"event": "crontab_minutes_lost", "crontab": entry.crontab.identifier},
            )

    async def _read(self) -> tuple[datetime, datetime, list[Entry]]:
        """The time, what our clock shows then, and all crontabs."""
        rows = await self._database.fetch(scheduling.read_crontabs(list(self._own)))
        entries = [entry for row in rows if (entry := self._entry(row)) is not None]
        self._stored.forget_all_but({identifier for _, identifier, *_ in rows})
        seen_at = self._clock.now()
        # In UTC: the zone of the session may put its clock forward or back, and sums would follow it.
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
        """Make new crontabs known, and read again: somebody else may have been quicker, and his time counts then."""
        await self._make_known([entry.crontab.identifier for entry in entries if entry.known_since is None], now)
        return await self._read()

    async def _make_known(self, names: Sequence[str], now: datetime, lock_wait: timedelta | None = None) -> None:
        try:
            await self._database.run(register(names, now, LOCK_WAIT if lock_wait is None else lock_wait))
        except DatabaseError as error:
            if sqlstate_of(error) != _LOCK_NOT_AVAILABLE:
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
            if not (sqlstate_of(error) or "").startswith((*DATA_ERRORS, _GRAPHILE_ERRORS, _LOCK_NOT_AVAILABLE)):
                raise
            await self._schedule_apart(occurrences, now, error)
            return
        self._tell(scheduled.added)
        if scheduled.unknown:
            # Somebody has cleaned up since we looked.
            await self._make_known(scheduled.unknown, now)
            names = {*scheduled.unknown} - self._held_up.keys()
            if again := [one for one in occurrences if one.crontab.identifier in names]:
                await self._schedule(again, now, lock_wait)

    async def _schedule_apart(self, occurrences: Sequence[Occurrence], now: datetime, error: DatabaseError) -> None:
        """Let each crontab stand for itself: PostgreSQL refuses one of them, or another transaction holds its rows."""
        by_name: dict[str, list[Occurrence]] = {}
        for occurrence in occurrences:
            by_name.setdefault(occurrence.crontab.identifier, []).append(occurrence)
        if len(by_name) == 1 and sqlstate_of(error) == _LOCK_NOT_AVAILABLE:
            [(name, own)] = by_name.items()
            self._hold_up(name, own[0].minute - MINUTE)
            return
        if len(by_name) == 1:
            logger.error(
                "the crontab %r added no job, because PostgreSQL refuses it: %s",
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
                "the crontab %r is held up: another transaction holds its row, its schedule or the job of its key. It "
                "is tried again every %g s; other crontabs continue",
                name,
                RETRY_HELD_UP.total_seconds(),
                extra={"event": "crontab_held_up", "crontab": name},
            )

    def _tell(self, added: Sequence[Occurrence]) -> None:
        for occurrence in added:
            logger.debug(
                "the crontab %r added its job of %s",
                occurrence.crontab.identifier,
                occurrence.minute,
                extra={"event": "crontab_job_added", "crontab": occurrence.crontab.identifier},
            )
            self.teller.tell(CronJobScheduled(crontab=occurrence.crontab, scheduled_at=occurrence.minute))


class _StoredCrontabs:
    """The schedules of the database as they were read last. Each trouble with one of them is told once."""

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._read: dict[str, tuple[int, StoredCrontab | None]] = {}

    def of(self, columns: Row) -> StoredCrontab | None:
        """The schedule that these columns describe; None when it cannot be used."""
        identifier, revision, *_ = columns
        known = self._read.get(identifier)
        if known is None or known[0] != revision:
            known = self._read[identifier] = (revision, self._usable(columns))
        return known[1]

    def forget_all_but(self, identifiers: set[str]) -> None:
        """Let go of those that are gone."""
        self._read = {name: read for name, read in self._read.items() if name in identifiers}

    def _usable(self, columns: Row) -> StoredCrontab | None:
        identifier = columns[0]
        if identifier in self._own:
            logger.error(
                "the schedule %r of the database is not used by this worker, because a crontab of the worker has the "
                "same identifier. Remove the schedule, or give the crontab another id.",
                identifier,
                extra={"event": "schedule_shadowed", "crontab": identifier},
            )
            return None
        try:
            return stored_from_row(columns)
        except CrontabError as error:
            complaint = "the schedule %r of the database cannot be read, and adds no jobs: %s. Change or remove it."
            logger.error(complaint, identifier, error, extra={"event": "schedule_unreadable", "crontab": identifier})  # noqa: TRY400 - the error says all
            return None
