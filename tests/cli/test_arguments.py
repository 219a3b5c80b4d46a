"""Times as arguments of commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ferryman.cli.arguments import read_moment

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("+5m", timedelta(minutes=5)),
        ("+1h30m", timedelta(hours=1, minutes=30)),
        ("+90s", timedelta(seconds=90)),
        ("+2d", timedelta(days=2)),
        ("+1w1d1h1m1s", timedelta(days=8, hours=1, minutes=1, seconds=1)),
        ("now", timedelta(0)),
    ],
)
def test_a_relative_time_counts_from_now(text: str, later: timedelta) -> None:
    assert NOW + later == read_moment(text, NOW)


@pytest.mark.parametrize("text", ["2030-01-31T09:30:00Z", "2030-01-31T10:30:00+01:00", "2030-01-31 09:30Z"])
def test_iso_8601_with_a_zone_is_read_into_utc(text: str) -> None:
    moment = read_moment(text, NOW)

    assert datetime(2030, 1, 31, 9, 30, tzinfo=UTC) == moment
    assert UTC is moment.tzinfo


@pytest.mark.parametrize("text", ["2030-01-31T09:30:00", "2030-01-31"])
def test_a_time_without_a_zone_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no time zone\. Add Z .*: 2030-01-31T\d\d:\d\d:00Z$"):
        read_moment(text, NOW)


@pytest.mark.parametrize("text", ["", "+", "+5", "+5x", "+30m1h", "+-5m", "5m", "-5m", "tomorrow", "+٣m"])
def test_anything_else_is_refused_with_the_forms_that_are_taken(text: str) -> None:
    with pytest.raises(ValueError, match=r"Give 2030-01-31T09:30:00Z"):
        read_moment(text, NOW)


@pytest.mark.parametrize("text", ["+9999999999d", "+99999999999999999999s", "9999-12-31T23:59:59-05:00"])
def test_a_time_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too far away"):
        read_moment(text, NOW)
