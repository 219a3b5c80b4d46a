"""Decides which minutes of which crontabs are due, and adds their jobs."""

from __future__ import annotations

import heapq
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.cron.crontab import Crontab
from ferryman.cron.stored import key_mode_value
from ferryman.database.steps import Transaction
from ferryman.errors import ConfigurationError, JobNotAddedError
from ferryman.queries.schedules import limit_lock_waits, register_crontabs, schedule_crontabs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferryman.database.steps import Steps

MINUTE = timedelta(minutes=1)
GRACE = timedelta(minutes=5)
"""How late a running worker may add a job, even without a `fill`: the database or the machine was away."""
SHORT_WINDOW = timedelta(hours=1)
"""Up to this length it is faster to test each minute than to search for the next one that fires."""

LONGEST_FILL = timedelta(days=366 * 10)

_encoder = msgspec.json.Encoder()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A crontab, and what the database knows about it."""

    crontab: Crontab
    revision: int | None = None
    """The revision of the stored schedule; None for a crontab of the worker."""
    active_since: datetime | None = None
    known_since: datetime | None = None
    """The time since which the database knows it; None if it does not."""
    last_execution: datetime | None = None

    def earliest(self) -> datetime:
        """The first minute at which it may fire."""
        assert self.known_since is not None  # noqa: S101 - nothing is due for a crontab that is not known
        first = (
            _ceiling(self.known_since) if self.last_execution is None else floor_minute(self.last_execution) + MINUTE
        )
        return first if self.active_since is None else max(first, _ceiling(self.active_since))


class Occurrence(msgspec.Struct, frozen=True):
    """A crontab that fires at a minute."""

    entry: Entry
    minute: datetime
    is_backfilled: bool

    @property
    def crontab(self) -> Crontab:
        """The crontab that fires."""
        return self.entry.crontab


class Scheduled(msgspec.Struct, frozen=True):
    """The result of scheduling occurrences."""

    added: Sequence[Occurrence]
    """Occurrences whose jobs this worker has added."""
    unknown: Sequence[str]
    """Crontabs that the database does not know, or not any more; nothing was added for them."""


def crontabs_from(given: Iterable[Crontab | str] | Crontab | str) -> tuple[Crontab, ...]:
    """Turn crontabs and crontab texts into one list. Raises `ConfigurationError` if two have the same identifier."""
    items = [given] if isinstance(given, (Crontab, str)) else list(given)
    crontabs: list[Crontab] = []
    for item in items:
        if isinstance(item, str):
            from ferryman.cron.parsing import parse_crontab  # noqa: PLC0415 - only for text

            crontabs += parse_crontab(item)
        elif isinstance(item, Crontab):
            crontabs.append(item)
        else:
            raise ConfigurationError(f"crontabs must be crontabs or crontab text, not {type(item).__name__}")
    _refuse_duplicates(crontabs)
    return tuple(crontabs)


def _refuse_duplicates(crontabs: Sequence[Crontab]) -> None:
    tasks: dict[str, list[str]] = {}
    for crontab in crontabs:
        tasks.setdefault(crontab.identifier, []).append(crontab.task_identifier)
    problems = [
        f"{identifier!r} (of the tasks {', '.join(map(repr, named))})"
        for identifier, named in tasks.items()
        if len(named) > 1
    ]
    if problems:
        raise ConfigurationError(
            f"several crontabs have the same identifier: {'; '.join(problems)}. The database stores by it which "
            f"minutes have fired, so each needs its own. Give them different ids, with ?id=… in text."
        )


def due_occurrences(entries: Iterable[Entry], *, covered: datetime | None, now: datetime) -> Iterator[Occurrence]:
    """The occurrences that are due, oldest first.

    The current minute is due, and so are missed minutes up to `GRACE`. Older ones are due within the crontab's `fill`.

    covered: the last minute whose jobs were added; None if the worker has just started
    """
    minute = floor_minute(now)
    prompt_from = minute if covered is None else max(covered + MINUTE, minute - GRACE)
    found = []
    for entry in entries:
        first = max(_reach(entry, prompt_from, now), entry.earliest())
        if covered is not None:
            first = max(first, covered + MINUTE)
        if first <= minute:
            found.append(_fired(entry, first, minute, prompt_from))
    return heapq.merge(*found, key=lambda occurrence: occurrence.minute)


def lost_minutes(entry: Entry, *, covered: datetime, now: datetime) -> tuple[datetime, datetime] | None:
    """The first and last minute since `covered` that no worker fired, and that are too old to fire now; None: none."""
    first = max(covered + MINUTE, entry.earliest())
    last = _reach(entry, floor_minute(now) - GRACE, now) - MINUTE
    lost = entry.crontab.next_after(first - MINUTE) if first <= last else None
    return None if lost is None or lost > last else (lost, last)


def _reach(entry: Entry, prompt_from: datetime, now: datetime) -> datetime:
    """The first minute that is not too late to fire."""
    return min(prompt_from, _ceiling(now - _fill(entry.crontab)))


def _fired(entry: Entry, first: datetime, last: datetime, prompt_from: datetime) -> Iterator[Occurrence]:
    for minute in _minutes(entry.crontab, first, last):
        yield Occurrence(entry, minute, minute < prompt_from)


def _minutes(crontab: Crontab, first: datetime, last: datetime) -> Iterator[datetime]:
    if last - first <= SHORT_WINDOW:
        minute: datetime | None = first
        while minute is not None and minute <= last:
            if crontab.fires_at(minute):
                yield minute
            minute += MINUTE
        return
    minute = crontab.next_after(first - MINUTE)
    while minute is not None and minute <= last:
        yield minute
        minute = crontab.next_after(minute)


def schedule(occurrences: Sequence[Occurrence], lock_wait: timedelta) -> Steps[Scheduled]:
    """Add the jobs of occurrences that no other worker has fired first.

    lock_wait: how long to wait for a row that another transaction has locked; then PostgreSQL raises 55P03
    """
    # In a transaction, to undo everything if a job with a key got lost: the original body of add_jobs silently drops a
    # job whose predecessor is claimed at the same moment.
    yield Transaction()
    yield limit_lock_waits(lock_wait)
    [(places, ids, unknown)] = yield schedule_crontabs(_encoded(occurrences))
    for place, job_id in zip(places, ids, strict=True):
        if job_id is None:
            raise JobNotAddedError(f"the job of the crontab {occurrences[place].crontab.identifier!r} was not stored")
    return Scheduled([occurrences[place] for place in places], unknown)


def register(identifiers: Sequence[str], since: datetime, lock_wait: timedelta) -> Steps[None]:
    """Register crontabs. Waits at most `lock_wait` for an open transaction that registers them too."""
    yield Transaction()
    yield limit_lock_waits(lock_wait)
    yield register_crontabs(identifiers, since)


def _encoded(occurrences: Sequence[Occurrence]) -> str:
    return _encoder.encode([_record(place, occurrence) for place, occurrence in enumerate(occurrences)]).decode()


def _record(place: int, occurrence: Occurrence) -> dict[str, Any]:
    crontab = occurrence.crontab
    payload = payload_at(crontab, occurrence.minute, is_backfilled=occurrence.is_backfilled)
    return {
        "place": place,
        "identifier": crontab.identifier,
        "revision": occurrence.entry.revision,
        "minute": occurrence.minute,
        "task_identifier": crontab.task_identifier,
        "payload": msgspec.Raw(payload.encode()),
        "queue_name": crontab.queue_name,
        "max_attempts": crontab.max_attempts,
        "priority": crontab.priority,
        "flags": crontab.flags,
        "job_key": crontab.job_key,
        "job_key_mode": key_mode_value(crontab.job_key_mode),
    }


def payload_at(crontab: Crontab, moment: datetime, *, is_backfilled: bool) -> str:
    """The payload with `_cron` in it, in the form that Node writes."""
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    mark = json.dumps({"ts": in_utc.isoformat(timespec="milliseconds") + "Z", "backfilled": is_backfilled})
    payload = "{}" if crontab.payload_json is None else crontab.payload_json.strip()
    if '_cron"' in payload:
        payload = json.dumps({key: value for key, value in json.loads(payload).items() if key != "_cron"})
    rest = payload[1:-1].strip()
    return f'{{{rest}{"," if rest else ""}"_cron":{mark}}}'


def floor_minute(moment: datetime) -> datetime:
    """The start of the moment's minute, in UTC."""
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _ceiling(moment: datetime) -> datetime:
    floor = floor_minute(moment)
    return floor if floor == moment else floor + MINUTE


def _fill(crontab: Crontab) -> timedelta:
    seconds = 0 if crontab.fill is None else crontab.fill.total_seconds()
    return min(timedelta(seconds=min(seconds, 10**9)), LONGEST_FILL)
