"""Timers, fills and crontabs as values."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from ferryman import JobKeyMode
from ferryman.cron import Crontab, CrontabFill, CrontabTimer
from ferryman.errors import CrontabError

FRIDAY_13 = datetime(2026, 2, 13, 8, 0, tzinfo=UTC)
FRIDAY_20 = datetime(2026, 2, 20, 8, 0, tzinfo=UTC)
MONDAY_13 = datetime(2026, 4, 13, 8, 0, tzinfo=UTC)
MONDAY_20 = datetime(2026, 4, 20, 8, 0, tzinfo=UTC)


def test_a_timer_that_limits_nothing_names_every_minute() -> None:
    assert CrontabTimer().names(FRIDAY_13)
    assert not CrontabTimer().limits_hours
    assert repr(CrontabTimer()) == "CrontabTimer()"


def test_days_and_weekdays_are_alternatives_when_both_are_limited() -> None:
    timer = CrontabTimer(days=frozenset({13}), weekdays=frozenset({5}))

    assert [timer.names(day) for day in (FRIDAY_13, FRIDAY_20, MONDAY_13, MONDAY_20)] == [True, True, True, False]


def test_a_list_of_all_days_does_not_limit_them() -> None:
    timer = CrontabTimer(days=frozenset(range(1, 32)), weekdays=frozenset({5}))

    assert not timer.limits_days
    assert [timer.names(day) for day in (FRIDAY_20, MONDAY_20)] == [True, False]


def test_seven_is_sunday_too() -> None:
    assert CrontabTimer(weekdays=frozenset({7})) == CrontabTimer(weekdays=frozenset({0}))
    assert CrontabTimer(weekdays=frozenset(range(1, 8))) == CrontabTimer()


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"minutes": {60}}, "minutes take 0 to 59; got 60"),
        ({"hours": [-1]}, "hours take 0 to 23; got -1"),
        ({"days": (0,)}, "days take 1 to 31; got 0"),
        ({"months": {13}}, "months take 1 to 12; got 13"),
        ({"weekdays": {8}}, "weekdays take 0 to 7; got 8"),
        ({"hours": set()}, "hours must not be empty: the schedule would never fire"),
        ({"hours": {True}}, "hours take whole numbers; got True"),
        ({"hours": {"8"}}, "hours take whole numbers; got '8'"),
        ({"hours": 8}, "hours must be a set of whole numbers; got 8"),
        ({"hours": "8"}, "hours must be a set of whole numbers; got '8'"),
    ],
)
def test_a_timer_refuses_what_a_clock_never_shows(limits: dict[str, object], problem: str) -> None:
    with pytest.raises(CrontabError) as caught:
        CrontabTimer(**limits)

    assert str(caught.value) == problem


def test_fills_are_ordered_by_their_length() -> None:
    assert CrontabFill.hours(25) > CrontabFill.days(1) > CrontabFill.minutes(1439)
    assert CrontabFill.weeks(1) == CrontabFill(days=7) == CrontabFill.seconds(604_800)
    assert max(CrontabFill.minutes(90), CrontabFill.hours(1)).total_seconds() == 5400


def test_a_fill_is_shown_as_a_crontab_writes_it() -> None:
    assert str(CrontabFill(4, 3, 2, 1)) == "4w3d2h1m"
    assert repr(CrontabFill.seconds(90)) == "CrontabFill('1m30s')"
    assert str(CrontabFill()) == "0s"


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", True, None])
def test_a_fill_is_made_of_whole_numbers(wrong: object) -> None:
    with pytest.raises(CrontabError, match="a fill takes whole numbers, 0 or more"):
        CrontabFill.hours(wrong)


def test_a_fill_has_an_end() -> None:
    assert CrontabFill.weeks(520).total_seconds() == 520 * 604_800
    with pytest.raises(CrontabError, match="a fill is at most 520 weeks long"):
        CrontabFill(weeks=520, seconds=1)


def test_a_crontab_is_known_by_its_id_or_else_by_its_task() -> None:
    assert Crontab(CrontabTimer(), "task").identifier == "task"
    assert Crontab(CrontabTimer(), "task", id="other").identifier == "other"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"id": ""}, "id must have 1 to 512 characters"),
        ({"max_attempts": 0}, "max_attempts must be between 1 and 32767"),
        ({"priority": 40_000}, "priority must be between -32768 and 32767"),
        ({"queue_name": "q" * 129}, "queue_name must have 1 to 128 characters"),
        ({"job_key": ""}, "job_key must have 1 to 512 characters"),
        ({"job_key_mode": "sometimes"}, "job_key_mode must be one of"),
        ({"fill": 5}, "fill must be a CrontabFill, not int"),
        ({"payload_json": "{"}, "payload_json is not valid JSON"),
        ({"payload_json": "[1]"}, "the payload of a crontab must be an object"),
        ({"payload_json": "null"}, "must be an object, to which `_cron` can be added; got null"),
    ],
)
def test_a_crontab_refuses_what_the_database_would_refuse(options: dict[str, object], problem: str) -> None:
    with pytest.raises(CrontabError, match=problem):
        Crontab(CrontabTimer(), "task", **options)


def test_a_crontab_needs_a_timer_and_a_task() -> None:
    with pytest.raises(CrontabError, match="timer must be a CrontabTimer, not str"):
        Crontab("* * * * *", "task")
    with pytest.raises(CrontabError, match="identifier must have 1 to 128 characters"):
        Crontab(CrontabTimer(), "")


def test_a_key_mode_may_be_given_by_its_name() -> None:
    assert Crontab(CrontabTimer(), "task", job_key_mode="replace").job_key_mode is JobKeyMode.REPLACE


def test_payloads_are_not_shown() -> None:
    assert "hush" not in repr(Crontab(CrontabTimer(), "task", payload_json='{"password": "hush"}'))


def test_values_are_hashable_and_survive_being_sent_to_another_process() -> None:
    crontab = Crontab(CrontabTimer(minutes=frozenset({5})), "task", fill=CrontabFill.days(1), time_zone="Asia/Kolkata")

    assert {crontab} == {pickle.loads(pickle.dumps(crontab))}


def test_an_error_keeps_its_problems_when_it_is_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(CrontabError("one", "two")))

    assert (str(error), error.problems) == ("one\ntwo", ("one", "two"))
