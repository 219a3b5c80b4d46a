"""Events and answers are frozen values that keep payloads to themselves."""

import copy
import inspect
import pickle
from datetime import UTC, datetime

import pytest

import ferryman.hooks
from ferryman import JobSpec
from ferryman.errors import InvalidJobError
from ferryman.hooks import (
    BeforeJobSchedule,
    Continue,
    Interceptor,
    JobRecoveryResult,
    LocalQueueInit,
    Observer,
    Reject,
    Skip,
)

NOW = datetime(2024, 1, 1, tzinfo=UTC)
PUBLIC = [value for name, value in vars(ferryman.hooks).items() if name in ferryman.hooks.__all__]


def _events(kind: type) -> list[type]:
    return [value for value in PUBLIC if inspect.isclass(value) and issubclass(value, kind) and value is not kind]


def test_graphiles_events_are_all_there_and_one_of_our_own() -> None:
    assert len(_events(Observer)) == 19 + 1
    assert len(_events(Interceptor)) == 4


@pytest.mark.parametrize("event", [*_events(Observer), *_events(Interceptor)])
def test_every_event_is_a_frozen_value_with_named_fields(event: type) -> None:
    parameters = inspect.signature(event).parameters.values()
    made = event(**{each.name: None for each in parameters})

    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters)
    for name in (*(each.name for each in parameters), "something_new"):
        with pytest.raises(AttributeError):
            setattr(made, name, 1)


def test_an_event_cannot_be_changed() -> None:
    event = LocalQueueInit(worker_id="w1")

    with pytest.raises(AttributeError, match="immutable"):
        event.worker_id = "w2"  # type: ignore[misc]


def test_equal_events_have_equal_fields_and_read_as_they_are_made() -> None:
    event = LocalQueueInit(worker_id="w1")

    assert event == LocalQueueInit(worker_id="w1") != LocalQueueInit(worker_id="w2")
    assert repr(event) == "LocalQueueInit(worker_id='w1')"


def test_payloads_do_not_show() -> None:
    event = BeforeJobSchedule(identifier="send_email", payload={"to": "secret"}, spec=JobSpec())

    assert "secret" not in repr(event)
    assert "secret" not in repr(Continue({"to": "secret"}))


def test_recovery_answers_read_as_they_are_written() -> None:
    answer = JobRecoveryResult.Reschedule(NOW, attempts=2)

    assert repr(answer).startswith("JobRecoveryResult.Reschedule(run_at=datetime")
    assert repr(JobRecoveryResult.Skip()) == "JobRecoveryResult.Skip()"


@pytest.mark.parametrize(
    "answer",
    [Continue(), Continue([1]), Skip(), Reject("why"), JobRecoveryResult.Default(), JobRecoveryResult.Reschedule(NOW)],
)
def test_answers_survive_copying_and_pickling(answer: object) -> None:
    assert copy.deepcopy(answer) == answer
    assert pickle.loads(pickle.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("run_at", "attempts", "complaint"),
    [
        (datetime(2024, 1, 1), None, "time zone"),  # noqa: DTZ001 - the mistake
        (None, None, "not None"),
        (NOW, -1, "attempts must be between 0"),
    ],
)
def test_a_reschedule_that_the_database_would_refuse_is_refused_at_once(
    run_at: datetime, attempts: int | None, complaint: str
) -> None:
    with pytest.raises(InvalidJobError, match=complaint):
        JobRecoveryResult.Reschedule(run_at, attempts)


def test_the_message_of_a_failure_is_text() -> None:
    with pytest.raises(TypeError, match="must be a string, not ValueError"):
        Reject(ValueError("boom"))  # type: ignore[arg-type]
