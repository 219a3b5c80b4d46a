"""Schedules written in Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from ferryman import App, JobKeyMode
from ferryman.cron import Cron, Crontab, CrontabFill, CrontabTimer, Weekday, parse_timer
from ferryman.errors import CrontabError

app = App("postgresql://")


@app.task
def plain(n: int = 0) -> None: ...


@app.task(queue_name="mail", max_attempts=3, priority=5, flags=["loud"])
async def greet(name: str, times: int = 1) -> None: ...


class Report(TypedDict):
    kind: str


@app.task
def report(what: Report) -> None: ...


@dataclass
class Image:
    path: str


@app.task
def resize(image: Image) -> None: ...


@pytest.mark.parametrize(
    ("built", "pattern"),
    [
        (Cron.every_minute(plain), "* * * * *"),
        (Cron.every_n_minutes(plain, 15), "*/15 * * * *"),
        (Cron.every_n_minutes(plain, 7), "*/7 * * * *"),
        (Cron.hourly_at(plain, 5), "5 * * * *"),
        (Cron.daily_at(plain, 8, 30), "30 8 * * *"),
        (Cron.weekly_on(plain, Weekday.MONDAY, 8, 0), "0 8 * * 1"),
        (Cron.weekly_on(plain, 7, 8, 0), "0 8 * * 0"),
        (Cron.monthly_on(plain, 31, 23, 59), "59 23 31 * *"),
        (Cron.yearly_on(plain, 2, 29, 0, 0), "0 0 29 2 *"),
        (Cron.from_timer(plain, CrontabTimer(hours=frozenset({1, 2}))), "* 1-2 * * *"),
    ],
)
def test_each_builder_says_what_its_pattern_says(built: Crontab, pattern: str) -> None:
    assert built == Crontab(parse_timer(pattern), "plain")


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: Cron.every_n_minutes(plain, 0), "steps take 1 to 59; got 0"),
        (lambda: Cron.every_n_minutes(plain, 60), "steps take 1 to 59; got 60"),
        (lambda: Cron.hourly_at(plain, 60), "minutes take 0 to 59; got 60"),
        (lambda: Cron.daily_at(plain, 24, 0), "hours take 0 to 23; got 24"),
        (lambda: Cron.weekly_on(plain, 8, 0, 0), "weekdays take 0 to 7; got 8"),
        (lambda: Cron.monthly_on(plain, 0, 0, 0), "days take 1 to 31; got 0"),
        (lambda: Cron.yearly_on(plain, 13, 1, 0, 0), "months take 1 to 12; got 13"),
        (lambda: Cron.yearly_on(plain, 2, 30, 0, 0), "month 2 never has a day 30: the schedule would never fire"),
        (lambda: Cron.yearly_on(plain, 4, 31, 0, 0), "month 4 never has a day 31: the schedule would never fire"),
        (lambda: Cron.daily_at(plain, "8", 0), "hours take whole numbers; got '8'"),
    ],
)
def test_times_that_there_are_not_are_refused(build: Any, problem: str) -> None:
    with pytest.raises(CrontabError) as caught:
        build()

    assert str(caught.value) == problem


def test_all_options_arrive() -> None:
    built = Cron.daily_at(
        "elsewhere",
        8,
        0,
        id="morning",
        fill=CrontabFill.hours(6),
        max_attempts=2,
        queue_name="q",
        priority=-1,
        job_key="k",
        job_key_mode=JobKeyMode.UNSAFE_DEDUPE,
        payload={"a": [1]},
        time_zone="Europe/Paris",
    )

    assert built == Crontab(
        parse_timer("0 8 * * *"),
        "elsewhere",
        id="morning",
        fill=CrontabFill.hours(6),
        max_attempts=2,
        queue_name="q",
        priority=-1,
        job_key="k",
        job_key_mode=JobKeyMode.UNSAFE_DEDUPE,
        payload_json='{"a":[1]}',
        time_zone="Europe/Paris",
    )


def test_an_unknown_option_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="timezone"):
        Cron.every_minute("task", timezone="UTC")


def test_the_defaults_of_the_task_count_where_the_schedule_says_nothing() -> None:
    left = Cron.every_minute(greet, payload={"name": "Ann"})
    said = Cron.every_minute(greet, payload={"name": "Ann"}, queue_name="other", priority=0, flags=[])

    assert (left.queue_name, left.max_attempts, left.priority, left.flags) == ("mail", 3, 5, ("loud",))
    assert (said.queue_name, said.max_attempts, said.priority, said.flags) == ("other", 3, 0, ())


def test_a_queue_that_is_named_by_the_payload_is_the_one_of_the_schedules_payload() -> None:
    other = App("postgresql://")

    @other.cron("0 8 * * *", payload={"user": 7})
    @other.task(queue_name="user:{user}")
    async def remind(user: int = 0) -> None: ...

    assert [crontab.queue_name for crontab in other.crontabs] == ["user:7"]
    assert Cron.every_minute(remind, payload={"user": 8}, queue_name="all").queue_name == "all"
    with pytest.raises(CrontabError, match=r"schedule 'remind': .* the queue name 'user:\{user\}' needs .* 'user'"):
        Cron.every_minute(remind)


@pytest.mark.parametrize("payload", [{"name": "Ann"}, greet.job(name="Ann"), greet.job("Ann")])
def test_a_payload_is_plain_values_or_a_job_of_the_task(payload: Any) -> None:
    built = Cron.every_minute(greet, payload=payload)

    assert json.loads(built.payload_json or "") == {"name": "Ann"}


@pytest.mark.parametrize(
    ("task", "payload"), [(report, {"kind": "full"}), (resize, Image("a.png")), (resize, {"path": "a.png"})]
)
def test_a_structured_payload_is_given_as_what_it_is(task: Any, payload: Any) -> None:
    assert Cron.every_minute(task, payload=payload).payload_json in {'{"kind":"full"}', '{"path":"a.png"}'}


@pytest.mark.parametrize(
    ("task", "payload", "problem"),
    [
        (greet, None, "schedule 'greet': task 'greet': payload field 'name' is missing"),
        (greet, {"name": 5}, "payload field 'name'"),
        (greet, {"name": "Ann", "tmes": 2}, "payload field 'tmes' is unknown (did you mean 'times'?)"),
        (greet, plain.job(n=1), "the payload is a job of the task 'plain', not of 'greet'"),
        (resize, {"pat": "x"}, "payload field 'pat' is unknown (did you mean 'path'?)"),
        ("elsewhere", [1], "the payload of a crontab must be an object"),
        ("elsewhere", {"a": {1}}, "payload.a is a set, which JSON cannot hold"),
        ("elsewhere", {"a": "\0"}, "payload.a contains a NUL character"),
    ],
)
def test_a_payload_with_which_the_task_could_not_run_is_refused(task: Any, payload: Any, problem: str) -> None:
    with pytest.raises(CrontabError) as caught:
        Cron.every_minute(task, payload=payload)

    assert problem in str(caught.value)
    assert "nothing was added" not in str(caught.value)


def test_what_is_not_a_task_is_refused() -> None:
    with pytest.raises(CrontabError, match="a schedule needs a task, or the identifier of one"):
        Cron.every_minute(lambda: None)
