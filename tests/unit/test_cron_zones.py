"""Schedules in time zones: clocks that are put forward and back, leap days, and the search for the next minute."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ferryman.cron import Crontab, CrontabTimer, next_times, parse_timer
from ferryman.errors import CrontabError

MINUTE = timedelta(minutes=1)


def _fires(pattern: str, zone: str, start: str, end: str) -> list[str]:
    """The times between two days, in UTC, as the minutes themselves tell."""
    crontab = Crontab(parse_timer(pattern), "task", time_zone=zone)
    moment, last = datetime.fromisoformat(f"{start}T00:00Z"), datetime.fromisoformat(f"{end}T00:00Z")
    found = []
    while moment < last:
        if crontab.fires_at(moment):
            found.append(f"{moment:%m-%d %H:%M}")
        moment += MINUTE
    return found


@pytest.mark.parametrize(
    ("zone", "pattern", "start", "end", "expected"),
    [
        # 29 March 2026: from 02:00 to 03:00, at 01:00 UTC
        ("Europe/Paris", "30 2 * * *", "2026-03-28", "2026-03-31", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("Europe/Paris", "0 3 * * *", "2026-03-29", "2026-03-30", ["03-29 01:00"]),
        # 8 March 2026: from 02:00 to 03:00, at 07:00 UTC
        ("America/New_York", "15 2 * * *", "2026-03-07", "2026-03-10", ["03-07 07:15", "03-08 07:00", "03-09 06:15"]),
        # 4 October 2026: from 02:00 to 02:30, at 15:30 UTC of the day before
        (
            "Australia/Lord_Howe",
            "10 2 * * *",
            "2026-10-02",
            "2026-10-05",
            ["10-02 15:40", "10-03 15:30", "10-04 15:10"],
        ),
        ("Australia/Lord_Howe", "40 2 * * *", "2026-10-03", "2026-10-04", ["10-03 15:40"]),
        # Never: the clock of India is not changed
        ("Asia/Kolkata", "30 2 * * *", "2026-03-28", "2026-03-31", ["03-28 21:00", "03-29 21:00", "03-30 21:00"]),
        # 8 March 2026: from 02:00 to 03:00, at 05:30 UTC
        ("America/St_Johns", "59 2 * * *", "2026-03-07", "2026-03-10", ["03-07 06:29", "03-08 05:30", "03-09 05:29"]),
        # 22 March 2026, the end of Ramadan: from 02:00 to 03:00, at 02:00 UTC
        ("Africa/Casablanca", "30 2 * * *", "2026-03-21", "2026-03-24", ["03-21 02:30", "03-22 02:00", "03-23 01:30"]),
        # 30 December 2011 was left out
        ("Pacific/Apia", "0 12 30 * *", "2011-12-29", "2012-01-02", ["12-30 10:00"]),
    ],
)
def test_a_local_time_that_the_clock_skips_fires_once_at_the_next_minute_that_there_is(
    zone: str, pattern: str, start: str, end: str, expected: list[str]
) -> None:
    assert _fires(pattern, zone, start, end) == expected


@pytest.mark.parametrize(
    ("zone", "pattern", "start", "end", "expected"),
    [
        # 25 October 2026: from 03:00 back to 02:00, at 01:00 UTC
        ("Europe/Paris", "30 2 * * *", "2026-10-24", "2026-10-27", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        # 1 November 2026: from 02:00 back to 01:00, at 06:00 UTC
        ("America/New_York", "0 1 * * *", "2026-10-31", "2026-11-03", ["10-31 05:00", "11-01 05:00", "11-02 06:00"]),
        # 5 April 2026: from 02:00 back to 01:30, at 15:00 UTC of the day before
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2026-04-03",
            "2026-04-06",
            ["04-03 14:45", "04-04 14:45", "04-05 15:15"],
        ),
        # 1 November 2026: from 02:00 back to 01:00, at 04:30 UTC
        ("America/St_Johns", "15 1 * * *", "2026-10-31", "2026-11-03", ["10-31 03:45", "11-01 03:45", "11-02 04:45"]),
        # 15 February 2026, the beginning of Ramadan: from 03:00 back to 02:00, at 02:00 UTC
        ("Africa/Casablanca", "30 2 * * *", "2026-02-14", "2026-02-17", ["02-14 01:30", "02-15 01:30", "02-16 02:30"]),
    ],
)
def test_a_local_time_that_comes_twice_fires_the_first_time(
    zone: str, pattern: str, start: str, end: str, expected: list[str]
) -> None:
    assert _fires(pattern, zone, start, end) == expected


def test_many_skipped_times_fire_once_together() -> None:
    assert _fires("*/10 2 * * *", "Europe/Paris", "2026-03-29", "2026-03-30") == ["03-29 01:00"]


@pytest.mark.parametrize("minute", ["30", "05"])
def test_a_schedule_of_every_hour_makes_up_for_nothing_that_the_clock_skipped(minute: str) -> None:
    # 01:00 UTC is 03:00 in Paris, after 01:59.
    fired = _fires(f"{int(minute)} * * * *", "Europe/Paris", "2026-03-29", "2026-03-30")

    assert fired == [f"03-29 {hour:02}:{minute}" for hour in range(24)]


def test_a_schedule_of_every_hour_goes_on_through_a_repeated_hour() -> None:
    # 00:00 to 02:00 UTC are 02:00 to 03:00 in Paris, twice.
    fired = _fires("*/20 * * * *", "Europe/Paris", "2026-10-25", "2026-10-26")

    assert fired[:7] == [
        "10-25 00:00",
        "10-25 00:20",
        "10-25 00:40",
        "10-25 01:00",
        "10-25 01:20",
        "10-25 01:40",
        "10-25 02:00",
    ]
    assert len(fired) == 24 * 3


@pytest.mark.parametrize(
    "zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns"]
)
@pytest.mark.parametrize("year", [2005, 2026])
def test_a_year_of_minutes_agrees_with_the_wall_clock(zone: str, year: int) -> None:
    """The other way round: from each local time to the moment at which it must fire."""
    chance = random.Random(f"{zone} {year}")
    timer = CrontabTimer(
        minutes=frozenset(chance.sample(range(60), 2)),
        hours=frozenset({*chance.sample(range(4), 2), chance.randrange(24)}),
        days=frozenset(chance.sample(range(1, 32), 25)),
    )
    crontab = Crontab(timer, "task", time_zone=zone)

    assert set(_all_times(crontab, year)) == _expected(timer, ZoneInfo(zone), year)


def _all_times(crontab: Crontab, year: int) -> list[datetime]:
    start, end = datetime(year, 2, 1, tzinfo=UTC), datetime(year, 12, 1, tzinfo=UTC)
    found, moment = [], crontab.next_after(start - MINUTE)
    while moment is not None and moment < end:
        found.append(moment)
        moment = crontab.next_after(moment)
    return found


def _expected(timer: CrontabTimer, zone: ZoneInfo, year: int) -> set[datetime]:
    start, end = datetime(year, 2, 1, tzinfo=UTC), datetime(year, 12, 1, tzinfo=UTC)
    days = (datetime(year, 1, 30) + timedelta(days=number) for number in range(310))  # noqa: DTZ001 - a wall clock
    walls = (
        day.replace(hour=hour, minute=minute)
        for day in days
        if timer.names_date(day)
        for hour in timer.hours
        for minute in timer.minutes
    )
    return {moment for moment in (_first_moment(wall, zone) for wall in walls) if start <= moment < end}


def _first_moment(wall: datetime, zone: ZoneInfo) -> datetime:
    while True:
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == wall:
            return moment
        wall += MINUTE


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"])
def test_the_next_time_is_the_first_minute_that_fires(zone: str) -> None:
    chance = random.Random(zone)
    for _ in range(40):
        timer = CrontabTimer(
            minutes=frozenset(chance.sample(range(60), chance.choice((1, 5)))),
            hours=frozenset(chance.sample(range(24), chance.choice((1, 3, 24)))),
            weekdays=frozenset(chance.sample(range(7), chance.choice((1, 7)))),
        )
        crontab = Crontab(timer, "task", time_zone=zone)
        after = datetime(2026, 3, 24, tzinfo=UTC) + timedelta(seconds=chance.randrange(250 * 86_400))
        moment = after.replace(second=0) + MINUTE
        while not crontab.fires_at(moment):
            moment += MINUTE
        assert crontab.next_after(after) == moment


def test_a_leap_day_is_found_across_a_century_without_one() -> None:
    crontab = Crontab(parse_timer("0 0 29 2 *"), "task", time_zone="Asia/Kolkata")

    assert [f"{time:%Y-%m-%d %H:%M}" for time in next_times(crontab, datetime(2093, 1, 1, tzinfo=UTC), 3)] == [
        "2096-02-28 18:30",
        "2104-02-28 18:30",
        "2108-02-28 18:30",
    ]


@pytest.mark.parametrize("pattern", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_day_that_no_month_has_is_never_next(pattern: str) -> None:
    assert Crontab(parse_timer(pattern), "task").next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_the_search_ends_with_the_calendar() -> None:
    crontab = Crontab(parse_timer("0 0 1 1 *"), "task", time_zone="Europe/Paris")

    assert crontab.next_after(datetime(9999, 6, 1, tzinfo=UTC)) is None


def test_the_31st_fires_only_in_months_that_have_one() -> None:
    crontab = Crontab(parse_timer("0 0 31 * *"), "task")

    months = [time.month for time in next_times(crontab, datetime(2026, 1, 1, tzinfo=UTC), 7)]
    assert months == [1, 3, 5, 7, 8, 10, 12]


def test_moments_count_by_their_minute_whatever_their_zone() -> None:
    crontab = Crontab(parse_timer("30 8 * * *"), "task")

    assert crontab.fires_at(datetime(2026, 1, 1, 9, 30, 59, 999, tzinfo=ZoneInfo("Europe/Paris")))
    assert not crontab.fires_at(datetime(2026, 1, 1, 8, 30, tzinfo=ZoneInfo("Europe/Paris")))
    assert crontab.next_after(datetime(2026, 1, 1, 8, 30, tzinfo=UTC)) == datetime(2026, 1, 2, 8, 30, tzinfo=UTC)
    assert crontab.next_after(datetime(2026, 1, 1, 8, 29, 59, tzinfo=UTC)) == datetime(2026, 1, 1, 8, 30, tzinfo=UTC)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(CrontabError, match="must have a time zone"):
        Crontab(CrontabTimer(), "task").fires_at(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("name", ["Europe/Pariss", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", None, 5])
def test_a_zone_that_nobody_knows_is_refused(name: object) -> None:
    with pytest.raises(CrontabError, match="unknown time zone"):
        Crontab(CrontabTimer(), "task", time_zone=name)


def test_a_misspelled_zone_gets_a_suggestion() -> None:
    with pytest.raises(CrontabError, match=r"unknown time zone 'europe/pari': did you mean Europe/Paris\?"):
        Crontab(CrontabTimer(), "task", time_zone="europe/pari")
