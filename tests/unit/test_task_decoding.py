"""From a payload in the database to the arguments of a call."""

import json
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman import App
from ferryman.errors import InvalidPayloadError

app = App()


@dataclass
class Image:
    path: str
    width: int = 100


@dataclass
class Settings:
    colour: str = "red"


class Order(TypedDict):
    number: int


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    number: int


class Circle(msgspec.Struct, tag=True):
    radius: int


class Square(msgspec.Struct, tag=True):
    side: int


@app.task
async def send_email(to: str, subject: str = "Hello") -> None: ...


@app.task
def resize(image: Image) -> None: ...


@app.task
def configure(settings: Settings) -> None: ...


@app.task
def bill(order: Order) -> None: ...


@app.task
def strict(payload: Strict) -> None: ...


@app.task
def draw(shape: Circle | Square) -> None: ...


@app.task
def anything(payload: dict[str, Any]) -> None: ...


@app.task
def collects(first: int, **others: int) -> None: ...


@app.task
def wants_cron(name: str, _cron: dict[str, Any] | None = None) -> None: ...


@app.task
def optional(image: Image | None = None) -> None: ...


@app.task
def loose(value: object, other: dict[str, object]) -> None: ...


def arguments(task: Any, payload: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = task.decode(json.dumps(payload)).kwargs
    return decoded


def test_keys_become_arguments() -> None:
    assert arguments(send_email, {"to": "a", "subject": "b"}) == {"to": "a", "subject": "b"}


def test_a_missing_key_is_left_to_the_functions_default() -> None:
    assert arguments(send_email, {"to": "a"}) == {"to": "a"}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ('{"to":1}', "payload field 'to' expected str, got int"),
        ("{}", "payload field 'to' is missing"),
        ('{"to":"a","too":1}', r"payload field 'too' is unknown \(did you mean 'to'\?\)"),
        ('{"to":"a","to":"b","too":1}', r"payload field 'too' is unknown \(did you mean 'to'\?\)"),
        ("[]", "the payload expected object, got array"),
        ("5", "the payload expected object, got int"),
        ("null", "payload field 'to' is missing"),
        ('{"to":', "the payload is not JSON: Input data was truncated"),
        ('{"to":1e400}', "payload field 'to' .*"),
        ("[" * 100_000, "the payload .*"),
        ('{"to":' + "[" * 100_000, "payload field 'to' expected str, got array"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_task_and_field(payload: str, problem: str) -> None:
    takes = r"it takes send_email\(to: str, subject: str = ...\)"

    with pytest.raises(InvalidPayloadError, match=f"^task 'send_email': {problem}; {takes}$"):
        send_email.decode(payload)


@pytest.mark.parametrize(
    "payload", ["[" * 100_000, '{"value":' + "[" * 100_000, '{"value":1e400,"other":{}}', "\ud800"]
)
def test_hostile_text_is_refused_whatever_the_types(payload: str) -> None:
    for task in (loose, anything, collects, resize):
        with pytest.raises(InvalidPayloadError, match=r"^task '"):
            task.decode(payload)


@given(st.text())
def test_any_text_is_decoded_or_refused(payload: str) -> None:
    for task in (send_email, resize, anything, collects, wants_cron):
        try:
            task.decode(payload)
        except InvalidPayloadError as refused:
            assert str(refused).startswith("task ")  # noqa: PT017


@pytest.mark.parametrize(
    ("task", "payload", "expected"),
    [
        (send_email, {"to": "a"}, {"to": "a"}),
        (resize, {"path": "a", "width": 3}, {"image": Image("a", 3)}),
        (bill, {"number": 1}, {"order": {"number": 1}}),
        (strict, {"number": 1}, {"payload": Strict(1)}),
        (draw, {"type": "Square", "side": 2}, {"shape": Square(2)}),
        (collects, {"first": 1, "second": 2}, {"first": 1, "second": 2}),
    ],
)
def test_keys_of_the_queue_itself_are_dropped(task: Any, payload: dict[str, Any], expected: dict[str, Any]) -> None:
    from_cron = {**payload, "_cron": {"ts": "2026-01-01T00:00:00Z", "backfilled": False}}

    assert arguments(task, payload) == expected
    assert arguments(task, from_cron) == expected


def test_a_parameter_may_ask_for_a_key_of_the_queue() -> None:
    assert arguments(wants_cron, {"name": "a", "_cron": {"ts": 1}}) == {"name": "a", "_cron": {"ts": 1}}
    assert arguments(wants_cron, {"name": "a"}) == {"name": "a"}


def test_a_plain_dict_gets_the_payload_as_it_stands() -> None:
    assert arguments(anything, {"a": 1, "_cron": {}}) == {"payload": {"a": 1, "_cron": {}}}


@pytest.mark.parametrize("task", [resize, bill, strict])
def test_unknown_keys_of_a_whole_payload_are_refused(task: Any) -> None:
    with pytest.raises(InvalidPayloadError, match="payload field 'colour' is unknown"):
        task.decode('{"colour":"red"}')


def test_a_key_of_the_wrong_type_is_named_by_its_dict() -> None:
    @app.task
    def tally(counts: dict[int, int], name: str) -> None: ...

    with pytest.raises(InvalidPayloadError, match="payload field 'counts' has a key that expected int, got str; it"):
        tally.decode('{"counts":{"a":1},"name":"n"}')


@pytest.mark.parametrize("null", ["null", " null\n"])
def test_null_which_a_crontab_without_payload_stores_is_an_empty_object(null: str) -> None:
    assert configure.decode(null).kwargs == {"settings": Settings()}
    assert anything.decode(null).kwargs == {"payload": {}}
    assert optional.decode(null).kwargs == {}


def test_an_optional_structured_parameter_is_a_key_like_any_other() -> None:
    assert arguments(optional, {"image": {"path": "a"}}) == {"image": Image("a")}
    assert arguments(optional, {"image": None}) == {"image": None}


def test_a_struct_that_is_an_array_in_json_is_a_key_like_any_other() -> None:
    class Point(msgspec.Struct, array_like=True):
        x: int
        y: int

    @app.task
    def move(to: Point) -> None: ...

    assert move.job(Point(1, 2)).payload_json == '{"to":[1,2]}'
    assert arguments(move, {"to": [1, 2]}) == {"to": Point(1, 2)}


def test_what_is_annotated_as_object_takes_anything() -> None:
    assert arguments(loose, {"value": [1], "other": {"a": None}}) == {"value": [1], "other": {"a": None}}


def test_whitespace_around_a_payload_does_not_matter() -> None:
    assert send_email.decode(' \n{ "to" : "a" } ').kwargs == {"to": "a"}


def test_a_long_and_odd_unknown_key_is_cut_and_escaped_in_the_message() -> None:
    with pytest.raises(InvalidPayloadError) as refused:
        send_email.decode(json.dumps({"to": "a", "\x1b[31m\n" + "x" * 10_000: 1}))

    assert len(str(refused.value)) < 400
    assert "\x1b" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_later_duplicate_of_a_key_wins_as_in_every_json_parser() -> None:
    assert send_email.decode('{"to":"a","to":"b"}').kwargs == {"to": "b"}


def test_decoded_arguments_fit_the_function() -> None:
    calls: list[dict[str, Any]] = []

    @app.task
    def record(a: int, b: int = 2, **others: int) -> None:
        calls.append({"a": a, "b": b, **others})

    decoded = record.decode('{"a":1,"c":3}')
    record.function(*decoded.args, **decoded.kwargs)

    assert calls == [{"a": 1, "b": 2, "c": 3}]


def test_a_key_of_the_queue_is_never_the_whole_payload() -> None:
    @App().task
    def roll_up(_cron: dict[str, Any]) -> None: ...

    decoded = roll_up.decode('{"_cron": {"ts": "2026-11-16T08:00:00.000Z", "backfilled": false}}')

    assert decoded.kwargs == {"_cron": {"ts": "2026-11-16T08:00:00.000Z", "backfilled": False}}
