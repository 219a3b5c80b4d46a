from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.errors import InvalidJobError
from ferryman.jobs import Job, JobKeyMode, JobSpec, JobState, NewJob, RawJobSpec, RescheduleJobOptions

NOW = datetime(2026, 1, 2, tzinfo=UTC)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
specs = st.builds(
    JobSpec,
    queue_name=st.none() | text.filter(lambda name: len(name) <= 128),
    run_at=st.none() | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    max_attempts=st.none() | st.integers(1, 32767),
    job_key=st.none() | text.filter(lambda key: len(key) <= 512),
    job_key_mode=st.none() | st.sampled_from(JobKeyMode),
    priority=st.none() | st.integers(-32768, 32767),
    flags=st.none() | st.lists(text.filter(lambda flag: len(flag) <= 128)),
)


class Priority(IntEnum):
    URGENT = -10


class Queue(StrEnum):
    MAIL = "mail"


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"queue_name": ""}, "queue_name must have 1 to 128 characters; this one has 0"),
        ({"queue_name": "q" * 129}, "queue_name must have 1 to 128 characters; this one has 129"),
        ({"queue_name": 5}, "queue_name must be a string, not int"),
        ({"queue_name": "a\0"}, "queue_name contains a NUL character, which PostgreSQL cannot store"),
        ({"job_key": ""}, "job_key must have 1 to 512 characters; this one has 0"),
        ({"job_key": "k" * 513}, "job_key must have 1 to 512 characters; this one has 513"),
        ({"job_key": "\ud800"}, "job_key contains half of a surrogate pair, which is not valid text"),
        ({"job_key_mode": "merge"}, "must be one of 'replace', 'preserve_run_at', 'unsafe_dedupe'; got 'merge'"),
        ({"job_key_mode": []}, r"must be one of 'replace', 'preserve_run_at', 'unsafe_dedupe'; got \[\]"),
        ({"max_attempts": 0}, "max_attempts must be between 1 and 32767; got 0"),
        ({"max_attempts": 32768}, "max_attempts must be between 1 and 32767; got 32768"),
        ({"max_attempts": True}, "max_attempts must be a whole number, not bool"),
        ({"max_attempts": 2.0}, "max_attempts must be a whole number, not float"),
        ({"priority": -32769}, "priority must be between -32768 and 32767; got -32769"),
        ({"priority": "1"}, "priority must be a whole number, not str"),
        ({"run_at": datetime(2026, 1, 2)}, "run_at must have a time zone; got 2026-01-02T00:00:00"),  # noqa: DTZ001
        ({"run_at": "tomorrow"}, "run_at must be a datetime, not str"),
        ({"run_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "lies outside the years 1 to 9999"),
        ({"delay": timedelta(seconds=-1)}, "delay must be from 0 to 365,000 days; got -1 day, 23:59:59"),
        ({"delay": timedelta(days=365_001)}, "delay must be from 0 to 365,000 days; got 365001 days, 0:00:00"),
        ({"delay": 5}, "delay must be a timedelta, not int"),
        ({"delay": timedelta(1), "run_at": NOW}, "a job has either a run_at or a delay, not both"),
        ({"flags": "gpu"}, "flags must be a list of strings; got the single string 'gpu'"),
        ({"flags": 5}, "flags must be a list of strings, not int"),
        ({"flags": ["gpu", 5]}, "each of flags must be a string, not int"),
        ({"flags": [""]}, "each of flags must have 1 to 128 characters; this one has 0"),
        ({"flags": ["a\0"]}, "each of flags contains a NUL character"),
    ],
)
def test_a_spec_refuses_what_the_queue_cannot_store(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        JobSpec(**given_)


def test_the_limits_themselves_are_accepted() -> None:
    JobSpec(queue_name="q" * 128, job_key="k" * 512, max_attempts=1, priority=-32768, run_at=NOW)
    JobSpec(max_attempts=32767, priority=32767, flags=[])


def test_a_refusal_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="priority"):
        JobSpec(priority=99999)


def test_a_spec_cannot_be_changed() -> None:
    spec = JobSpec(priority=1)

    with pytest.raises(FrozenInstanceError):
        spec.priority = 2


@pytest.mark.parametrize("flags", [["b", "a", "b"], ("b", "a"), iter("ba"), {"b": 1, "a": 2}])
def test_flags_are_kept_once_each_in_order_as_a_tuple(flags: Any) -> None:
    assert JobSpec(flags=flags).flags == ("b", "a")


@given(specs)
def test_a_spec_equals_its_copy_and_hashes_alike(spec: JobSpec) -> None:
    fields = {name: getattr(spec, name) for name in JobSpec.__slots__}

    assert JobSpec(**fields) == spec
    assert hash(JobSpec(**fields)) == hash(spec)


@given(specs, specs)
def test_a_spec_laid_over_another_wins_wherever_it_says_something(upper: JobSpec, lower: JobSpec) -> None:
    merged = upper.over(lower)

    for name in JobSpec.__slots__:
        said = getattr(upper, name)
        assert getattr(merged, name) == (getattr(lower, name) if said is None else said)


def test_nothing_to_add_leaves_the_very_same_spec() -> None:
    spec = JobSpec(priority=1)

    assert spec.over(JobSpec()) is spec


def test_empty_flags_are_an_answer_and_not_a_gap() -> None:
    assert JobSpec(flags=[]).over(JobSpec(flags=["gpu"])).flags == ()


def test_a_time_and_a_delay_replace_each_other() -> None:
    at, after = JobSpec(run_at=NOW), JobSpec(delay=timedelta(hours=1))

    assert (at.over(after), after.over(at)) == (at, after)
    assert JobSpec(priority=1).over(after) == JobSpec(priority=1, delay=timedelta(hours=1))


def test_members_of_enums_are_kept_as_plain_values() -> None:
    spec = JobSpec(priority=Priority.URGENT, queue_name=Queue.MAIL)

    assert (type(spec.priority), type(spec.queue_name)) == (int, str)
    assert spec == JobSpec(priority=-10, queue_name="mail")


def test_a_key_mode_may_be_given_by_its_name_in_the_database() -> None:
    assert JobSpec(job_key_mode="unsafe_dedupe").job_key_mode is JobKeyMode.UNSAFE_DEDUPE


def test_a_spec_shows_only_what_it_says() -> None:
    assert repr(JobSpec(priority=5, flags=["gpu"])) == "JobSpec(priority=5, flags=('gpu',))"


@pytest.mark.parametrize("identifier", ["", "t" * 129, "a\0", 5, None])
def test_a_job_refuses_an_identifier_that_the_database_would_refuse(identifier: Any) -> None:
    with pytest.raises(InvalidJobError, match=r"^identifier"):
        NewJob(identifier, "{}")
    with pytest.raises(InvalidJobError, match=r"^identifier"):
        RawJobSpec(identifier, {})


def test_a_raw_job_refuses_a_spec_that_is_not_one() -> None:
    with pytest.raises(InvalidJobError, match="spec must be a JobSpec, not dict"):
        RawJobSpec("resize", {}, {"priority": 1})


def test_payloads_stay_out_of_what_is_printed() -> None:
    job = Job(1, "t", '{"p":"hunter2"}', None, 0, NOW, 0, 25, None, NOW, NOW, None, None, None, 0, (), JobState.READY)

    shown = f"{NewJob('t', 'hunter2')!r} {RawJobSpec('t', 'hunter2')!r} {job!r}"

    assert "hunter2" not in shown
    assert job.payload == {"p": "hunter2"}


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"attempts": -1}, "attempts must be between 0 and 32767; got -1"),
        ({"max_attempts": 0}, "max_attempts must be between 1 and 32767; got 0"),
        ({"priority": 40000}, "priority must be between -32768 and 32767; got 40000"),
        ({"run_at": datetime(2026, 1, 2)}, "run_at must have a time zone"),  # noqa: DTZ001
    ],
)
def test_rescheduling_refuses_what_the_queue_cannot_store(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        RescheduleJobOptions(**given_)


def test_rescheduling_may_set_attempts_back_to_nought() -> None:
    assert RescheduleJobOptions(attempts=0).attempts == 0
