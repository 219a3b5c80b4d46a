"""Decides at which minutes a timer fires in a time zone with daylight saving time.

A local time that the clock skips fires once, at the next minute that there is. A local time that comes twice fires
the first time. A schedule that runs in every hour is not tied to a time of day: it makes up for no skipped hour, and
continues through a repeated one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from ferryman.cron.timer import CrontabTimer

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

HORIZON = timedelta(days=8 * 366)
"""How far the search for the next minute looks: 29 February can be eight years away, as around 2100."""


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """Return the time zone of this name. Raises `CrontabError` if it is unknown."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise CrontabError(f"unknown time zone {name!r}{_hint_about(name)}") from None


def _hint_about(name: object) -> str:
    known = available_timezones()
    if not known:
        return ": this system has no time zone data. Install the package tzdata."
    by_lower = {zone.lower(): zone for zone in known}
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    guesses = get_close_matches(str(name).lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[guesses[0]]}?" if guesses else "use a name such as Europe/Paris"
    return f": {hint}"


def fires_in_zone(timer: CrontabTimer, zone_name: str, minute: datetime) -> bool:
    """True if the timer names this minute on the clock of this zone. The minute is in UTC."""
    zone = zone_named(zone_name)
    if zone is UTC:
        return timer.names(minute)
    local = minute.astimezone(zone)
    if timer.names(local) and (local.fold == 0 or not timer.limits_hours):
        return True
    return timer.limits_hours and any(map(timer.names, _skipped_before(local, minute, zone)))


def next_in_zone(timer: CrontabTimer, zone_name: str, minute: datetime) -> datetime | None:
    """The first minute, from this one on, that the timer names in this zone. Minutes are in UTC."""
    zone = zone_named(zone_name)
    try:
        end = minute + HORIZON
        while minute < end:
            if minute.hour == minute.minute == 0 and not _names_date_within(timer, zone, minute, DAY):
                minute += DAY
            elif minute.minute == 0 and not _names_hour_within(timer, zone, minute, HOUR):
                minute += HOUR
            elif fires_in_zone(timer, zone_name, minute):
                return minute
            else:
                minute += MINUTE
    except OverflowError:  # the end of the calendar
        pass
    return None


def _skipped_before(local: datetime, minute: datetime, zone: tzinfo) -> Iterator[datetime]:
    """The local times that the clock skipped just before this minute: usually none."""
    now, skipped = local.replace(tzinfo=None), _naive(minute - MINUTE, zone) + MINUTE
    while skipped < now:
        yield skipped
        skipped += MINUTE


def _names_date_within(timer: CrontabTimer, zone: tzinfo, start: datetime, length: timedelta) -> bool:
    """True if the timer names any date that the clock shows or skips, from a minute before `start` on."""
    day, last = _naive(start - MINUTE, zone).date(), _naive(start + length, zone).date()
    while day <= last:
        if timer.names_date(day):
            return True
        day += DAY
    return False


def _names_hour_within(timer: CrontabTimer, zone: tzinfo, start: datetime, length: timedelta) -> bool:
    """True if the timer names any hour that the clock shows or skips, from a minute before `start` on."""
    before, after = _naive(start - MINUTE, zone), _naive(start + length, zone)
    if after - before != length + MINUTE:
        return True  # the clock was changed: test each minute
    return before.hour in timer.hours or after.hour in timer.hours or (before + HOUR).hour in timer.hours


def _naive(minute: datetime, zone: tzinfo) -> datetime:
    return minute.astimezone(zone).replace(tzinfo=None)
