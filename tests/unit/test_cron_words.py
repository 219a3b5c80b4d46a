"""Schedules in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ferryman.cron import Crontab, describe, next_times, parse_timer


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "at minute 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("15 * * * *", "at minute 15 of every hour"),
        ("0 8 * * *", "at 08:00 every day"),
        ("0,30 8,20 * * *", "at 08:00, 08:30, 20:00 and 20:30 every day"),
        ("0 */2 * * *", "at minute 0 of every 2nd hour"),
        ("*/15 8-17 * * 1-5", "every 15 minutes from 08:00 to 17:59 from Monday to Friday"),
        ("*/10 1,3,9 * * *", "every 10 minutes of the hours 1, 3 and 9"),
        ("30 4 * * 0,6", "at 04:30 on Saturday and Sunday"),
        ("0 0 * * 5-7", "at 00:00 from Friday to Sunday"),
        ("0 0 1,15 * *", "at 00:00 on day 1 and 15 of the month"),
        ("0 0 13 * 5", "at 00:00 on day 13 of the month and also on Friday"),
        ("0 0 29 2 *", "at 00:00 on day 29 of the month in February"),
        ("0 12 * 1-3,12 *", "at 12:00 every day in January to March and December"),
        ("* * * * 3", "every minute on Wednesday"),
    ],
)
def test_a_schedule_is_told_in_words(pattern: str, words: str) -> None:
    assert describe(Crontab(parse_timer(pattern), "task")) == f"{words}, UTC"


def test_the_clock_that_counts_is_named() -> None:
    assert describe(Crontab(parse_timer("0 8 * * *"), "task", time_zone="Asia/Kolkata")).endswith(", Asia/Kolkata")


def test_the_next_times_follow_each_other() -> None:
    crontab = Crontab(parse_timer("0 */8 * * *"), "task")

    assert [f"{time:%d %H:%M}" for time in next_times(crontab, datetime(2026, 1, 1, tzinfo=UTC))] == [
        "01 08:00",
        "01 16:00",
        "02 00:00",
        "02 08:00",
        "02 16:00",
    ]


def test_there_are_no_next_times_of_what_never_fires() -> None:
    assert list(next_times(Crontab(parse_timer("0 0 30 2 *"), "task"), datetime(2026, 1, 1, tzinfo=UTC))) == []
