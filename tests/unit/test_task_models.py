"""Pydantic models as payloads, by their own rules."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from ferryman import App
from ferryman.errors import InvalidPayloadError
from ferryman.payloads import encode_payload

app = App()
WHEN = datetime(2026, 1, 2, tzinfo=UTC)


class Visit(BaseModel):
    model_config = ConfigDict(strict=True)
    id: UUID
    at: datetime
    rating: float = Field(default=1.0, ge=0)


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    user_name: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class LogIn(BaseModel):
    user: str
    password: SecretStr


class Hidden(BaseModel):
    model_config = ConfigDict(extra="forbid")
    internal: int = Field(alias="_internal")


@dataclass
class Trip:
    visits: list[Visit]
    last: Visit | None = None


@app.task
def whole(visit: Visit) -> None: ...


@app.task
def named(visit: Visit, note: str = "") -> None: ...


@app.task
def nested(trip: Trip) -> None: ...


@app.task
def camel(who: Camel) -> None: ...


@app.task
def open_(payload: Open) -> None: ...


@app.task
def log_in(who: LogIn) -> None: ...


@app.task
def hidden(payload: Hidden) -> None: ...


VISIT = Visit(id=UUID(int=1), at=WHEN)


@pytest.mark.parametrize(
    ("task", "args", "kwargs"),
    [
        (whole, (VISIT,), {"visit": VISIT}),
        (named, (VISIT, "n"), {"visit": VISIT, "note": "n"}),
        (nested, (Trip([VISIT], VISIT),), {"trip": Trip([VISIT], VISIT)}),
        (camel, (Camel(userName="ann"),), {"who": Camel(userName="ann")}),
        (open_, (Open(a=1, b=2),), {"payload": Open(a=1, b=2)}),
    ],
)
def test_models_come_back_equal_wherever_they_stand(task: Any, args: Any, kwargs: Any) -> None:
    assert task.decode(task.job(*args).payload_json).kwargs == kwargs


def test_aliases_are_the_keys_as_other_languages_expect() -> None:
    assert json.loads(camel.job(Camel(userName="ann")).payload_json) == {"userName": "ann"}


@pytest.mark.parametrize(
    ("task", "payload", "problem"),
    [
        (whole, {"id": "nope", "at": "2026-01-01T00:00:00Z"}, "payload field 'id' is not accepted: Input should be a"),
        (whole, {}, r"payload field 'id' is not accepted: Field required \(and 1 more\)"),
        (whole, [], "the payload is not accepted: Input should be an object"),
        (
            named,
            {"visit": {"id": str(UUID(int=1))}},
            "payload field 'visit.at' is not accepted: Field required",
        ),
        (nested, {"visits": [{"at": 5}]}, r"payload field 'visits\[0\].id' is not accepted: Field required"),
        (camel, {"userName": "a", "more": 1}, "payload field 'more' is unknown"),
    ],
)
def test_a_payload_that_a_model_refuses_is_refused_by_task_and_field(task: Any, payload: Any, problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=f"^task '{task.identifier}': {problem}"):
        task.decode(json.dumps(payload))


def test_a_refusal_does_not_quote_the_payload() -> None:
    for task in (log_in, named, nested):
        with pytest.raises(InvalidPayloadError) as refused:
            task.decode('{"user": 5, "password": ["hunter2"], "visit": "hunter2", "visits": ["hunter2"]}')
        assert "hunter2" not in str(refused.value)


def test_a_secret_is_refused_because_pydantic_would_store_asterisks() -> None:
    with pytest.raises(InvalidPayloadError, match="a secret field would be stored as asterisks"):
        log_in.job(LogIn(user="ann", password=SecretStr("hunter2")))


def test_a_number_that_json_lacks_is_refused_inside_a_model_too() -> None:
    with pytest.raises(InvalidPayloadError, match=r"payload\.rating is inf"):
        whole.job(VISIT.model_copy(update={"rating": math.inf}))


def test_a_model_that_was_changed_into_something_wrong_is_refused() -> None:
    with pytest.raises(
        InvalidPayloadError, match=r"payload field 'rating' is not accepted: .*greater than or equal to 0"
    ):
        whole.job(VISIT.model_copy(update={"rating": -1.0}))


def test_keys_of_the_queue_itself_are_dropped_when_the_model_forbids_extras() -> None:
    assert camel.decode('{"userName":"a","_cron":{}}').kwargs == {"who": Camel(userName="a")}


def test_a_model_that_takes_extras_gets_the_keys_of_the_queue_too() -> None:
    assert open_.decode('{"a":1,"_cron":{}}').kwargs["payload"].model_extra == {"_cron": {}}


def test_an_alias_that_looks_like_a_key_of_the_queue_is_kept() -> None:
    assert hidden.decode('{"_internal":1,"_cron":{}}').kwargs == {"payload": Hidden(_internal=1)}


def test_models_in_raw_payloads_are_converted() -> None:
    assert json.loads(encode_payload({"who": [Camel(userName="ann")]})) == {"who": [{"userName": "ann"}]}


def test_a_model_class_as_task_refuses_wrong_fields_without_quoting_them() -> None:
    @app.task
    class Greet(BaseModel):
        times: int

        def run(self) -> None: ...

    with pytest.raises(InvalidPayloadError, match=r"^Greet\(times: int\): field 'times' is not accepted") as refused:
        app.tasks["greet"].job(times="hunter2")
    assert "hunter2" not in str(refused.value)
