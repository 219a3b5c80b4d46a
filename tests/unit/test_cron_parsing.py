"""Crontab text: its grammar and its messages."""

from __future__ import annotations

import json

import pytest

from ferryman import JobKeyMode
from ferryman.cron import Crontab, CrontabFill, CrontabTimer, parse_crontab, parse_timer
from ferryman.errors import CrontabError

FILE = """
# A comment, and an empty line

0 4 * * *           send_daily
*/5,3 1-3 */10 2,4 7  folder/task:x ?id=every_so_often&fill=4w3d2h1m&max=3&queue=my:queue&jobKey=a%20b&priority=-7 \
{to: 'a#b', /* no comment */ list: [1, 0x10, .5,],}
   30\t12  1 1 0   _year_start ?jobKeyMode=preserve_run_at&jobKey=k
0 0 * * * zoned ?tz=America/New_York
0 1 * * * offset ?tz=Etc/GMT+5
"""


def _only(line: str) -> Crontab:
    [entry] = parse_crontab(line)
    return entry


def _problems(text: str) -> tuple[str, ...]:
    with pytest.raises(CrontabError) as caught:
        parse_crontab(text)
    return caught.value.problems


def test_a_file_is_read_with_all_that_its_lines_say() -> None:
    daily, often, yearly, zoned, offset = parse_crontab(FILE)

    assert daily == Crontab(CrontabTimer(minutes=frozenset({0}), hours=frozenset({4})), "send_daily")
    assert often.timer == CrontabTimer(
        minutes=frozenset({3, *range(0, 60, 5)}),
        hours=frozenset({1, 2, 3}),
        days=frozenset({1, 11, 21, 31}),
        months=frozenset({2, 4}),
        weekdays=frozenset({0}),
    )
    assert (often.identifier, often.task_identifier) == ("every_so_often", "folder/task:x")
    assert often.fill == CrontabFill(4, 3, 2, 1)
    assert (often.max_attempts, often.queue_name, often.job_key, often.priority) == (3, "my:queue", "a b", -7)
    assert often.job_key_mode is JobKeyMode.REPLACE
    assert json.loads(often.payload_json or "") == {"to": "a#b", "list": [1, 16, 0.5]}
    assert yearly.job_key_mode is JobKeyMode.PRESERVE_RUN_AT
    assert yearly.payload_json is None
    assert (daily.time_zone, zoned.time_zone, offset.time_zone) == ("UTC", "America/New_York", "Etc/GMT+5")


def test_lines_without_a_zone_get_the_one_that_was_asked_for() -> None:
    entries = parse_crontab("0 0 * * * a\n0 0 * * * b ?tz=UTC", time_zone="Europe/Paris")

    assert [entry.time_zone for entry in entries] == ["Europe/Paris", "UTC"]


def test_an_empty_text_has_no_entries() -> None:
    assert parse_crontab(" \r\n\n# nothing\n") == []


def test_steps_begin_with_the_smallest_value_of_a_field() -> None:
    timer = parse_timer("*/25 */10 */10 */5 */3")

    assert sorted(timer.minutes) == [0, 25, 50]
    assert sorted(timer.hours) == [0, 10, 20]
    assert sorted(timer.days) == [1, 11, 21, 31]
    assert sorted(timer.months) == [1, 6, 11]
    assert sorted(timer.weekdays) == [0, 3, 6]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("foo", "Could not process line '1' of crontab: 'foo'"),
        ("* * * * *", "Could not process line '1' of crontab: '* * * * *'"),
        ("@daily task", "Could not process line '1' of crontab: '@daily task'"),
        ("0 0 * jan * task", "Could not process line '1' of crontab: '0 0 * jan * task'"),
        ("* * * * * 1task", "Invalid command specification in line 1 of crontab."),
        ("* * * * * task more", "Invalid command specification in line 1 of crontab."),
        ("* * * * * task [1]", "Invalid command specification in line 1 of crontab."),
        (
            "60 * * * * task",
            "Too large value '60' in minutes range in line 1 of crontab: expected values in the range 0-59.",
        ),
        (
            "* * 0 * * task",
            "Too small value '0' in dates range in line 1 of crontab: expected values in the range 1-31.",
        ),
        (
            "* * * * 8 task",
            "Too large value '8' in days of week range in line 1 of crontab: expected values in the range 0-6.",
        ),
        (
            "*/0 * * * * task",
            (
                "Invalid wildcard expression '*/0' in minutes range in line 1 of crontab: "
                "divisor '0' expected to be greater than zero"
            ),
        ),
        (
            "* 5-5 * * * task",
            "Invalid range '5-5' in hours range in line 1 of crontab: destination is not larger than source",
        ),
        (
            "* * * 1-9/2 * task",
            (
                "Unsupported syntax '1-9/2' in months range in line 1 of crontab: "
                "this doesn't appear to be a number, range or wildcard"
            ),
        ),
        (
            "* * * * * task ?unknown=3",
            (
                "Options on line 1 of crontab contains unsupported key 'unknown'; supported keys are: "
                "'id', 'fill', 'max', 'queue', 'jobKey', 'jobKeyMode', 'priority'."
            ),
        ),
        (
            "* * * * * task ?fill=3x",
            (
                "Options on line 1 of crontab contains invalid value for 'fill', "
                "value '3x' is not compatible with this option."
            ),
        ),
        (
            "* * * * * task ?max=1&max=2",
            "Options on line 1 of crontab contains invalid value for 'max', did you specify it more than once?",
        ),
        (
            "* * * * * task {a: b}",
            "Failed to parse JSON5 payload on line 1 of crontab: JSON5: invalid character 'b' at 1:5",
        ),
        (
            "* * * * * task {a: Infinity}",
            "Failed to parse JSON5 payload on line 1 of crontab: JSON5: Infinity cannot be stored as JSON",
        ),
        (
            "0 0 * * * a\n0 1 * * * b ?id=a",
            (
                "Invalid crontab; duplicate identifiers found: 'a' - please use '?id=...' "
                "to specify unique identifiers for your cron items"
            ),
        ),
    ],
)
def test_messages_are_those_of_graphile_worker(line: str, message: str) -> None:
    [problem] = _problems(line)

    assert problem.split("\n  ")[0] == message


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("* * * mon * task", "'mon' stands where the months are expected. The months take 1-12: a number, a range"),
        ("0 8 * * task", "'task' stands where the days of week are expected. The days of week take 0-6"),
        ("0 8", "There are five fields, and these are missing: dates, months, days of week."),
        ("0 8 * * *", "There are five fields, and the identifier of a task behind them."),
        ("* 5-5 * * * task", "The hours take 0-23: a number, a range such as 0-4, *, */n, or a list of these"),
        ("* * * * * task ?timezone=UTC", "Ferryman takes 'tz' too, the name of a time zone."),
        ("* * * * * task ?tz=Europe/Pari", "unknown time zone 'Europe/Pari': did you mean Europe/Paris?"),
        ("* * * * * task ?max=0", "max_attempts must be between 1 and 32767; got 0"),
        ("* * * * * task ?priority=99999", "priority must be between -32768 and 32767; got 99999"),
        ("* * * * * task ?fill=9999w", "a fill is at most 520 weeks long"),
        ("0 0 * * * a\n\n0 1 * * * a", "They are: a: lines 1, 3."),
    ],
)
def test_messages_say_what_would_be_right(line: str, hint: str) -> None:
    [problem] = _problems(line)

    assert f"\n  {hint}" in problem


def test_everything_that_is_wrong_is_told_at_once_and_with_its_line() -> None:
    problems = _problems("0 0 * * * fine\nrubbish\n\n# comment\n99 * * * * task\r\n* * * * * task ?x=1\n* * * * * fine")

    assert [problem.partition(" of crontab")[0] for problem in problems] == [
        "Could not process line '2'",
        "Too large value '99' in minutes range in line 5",
        "Options on line 6",
        (
            "Invalid crontab; duplicate identifiers found: 'fine' - please use '?id=...' to specify unique identifiers "
            "for your cron items\n  They are: fine: lines 1, 7."
        ),
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"{'9' * 10_000} * * * * task",
        f"*/{'9' * 10_000} * * * 1-{'9' * 10_000} task",
        f"* * * * * task ?max={'9' * 10_000}",
        f"* * * * * task ?fill={'9' * 10_000}w",
        f"* * * * * task {{a: {'9' * 10_000}}}",
        f"* * * * * task {{a: {'[' * 10_000}}}",
        f"* * * * * task {{a: {'[' * 10_000}{']' * 10_000}}}",
        f"* * * * * {'t' * 10_000}",
        "* * * * * task ?id=\ud800",
    ],
    ids=lambda line: line[:24],
)
def test_absurd_lines_are_refused_like_others(line: str) -> None:
    assert len(_problems(line)) == 1


@pytest.mark.parametrize("pattern", ["", "* * * *", "* * * * * *", "daily", "* * * * mon"])
def test_a_pattern_that_has_not_five_fields_is_refused(pattern: str) -> None:
    with pytest.raises(CrontabError, match="Invalid cron pattern"):
        parse_timer(pattern)


def test_a_sixth_field_is_not_taken_for_seconds() -> None:
    with pytest.raises(CrontabError, match="There are five fields, and nothing behind them"):
        parse_timer("0 0 8 * * *")


def test_a_pattern_names_itself_when_a_value_is_wrong() -> None:
    with pytest.raises(CrontabError) as caught:
        parse_timer("0 24 * * *")

    assert str(caught.value) == (
        "Too large value '24' in hours range in pattern '0 24 * * *': expected values in the range 0-23."
    )
