from __future__ import annotations

import json
import math
from collections import ChainMap, OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferryman.errors import InvalidPayloadError
from ferryman.payloads import MAX_DEPTH, check_size, encode_payload

storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | storable_text,
    lambda inner: st.lists(inner) | st.dictionaries(storable_text, inner),
    max_leaves=20,
)
unstorable = st.sampled_from(["\0", "a\0b", "\ud800", "\udfff!", math.nan, math.inf, -math.inf, b"x", {1}, object()])


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Name(StrEnum):
    ANN = "ann"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


class Stamp(datetime):
    """A subclass, as pandas and freezegun have."""


class Day(date):
    pass


class Clock(time):
    pass


class Span(timedelta):
    pass


class Price(Decimal):
    pass


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Image:
    path: str
    sizes: list[int] = field(default_factory=list)


class Order(msgspec.Struct, rename="camel"):
    order_number: int


@given(json_values)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    assert json.loads(encode_payload(value)) == value


@given(json_values, unstorable)
def test_one_unstorable_part_anywhere_refuses_the_whole_payload(value: Any, bad: Any) -> None:
    for payload in (bad, [value, bad], {"good": value, "bad": bad}, {"deep": [{"er": [bad]}]}):
        with pytest.raises(InvalidPayloadError, match="nothing was added"):
            encode_payload(payload)


@given(st.sampled_from(["\0", "a\0", "\udc00"]))
def test_an_unstorable_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidPayloadError, match=r"a key of payload\.outer contains"):
        encode_payload({"outer": {key: 1}})


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"to": {"name": "a\0"}}, "payload.to.name contains a NUL character, which PostgreSQL cannot store"),
        ({"rows": [1, "\ud83d"]}, r"payload.rows\[1\] contains half of a surrogate pair, which is not valid text"),
        ({"rate": math.nan}, "payload.rate is nan, which JSON cannot hold"),
        ([math.inf], r"payload\[0\] is inf, which JSON cannot hold"),
        ({"by_id": {1: "a"}}, "payload.by_id has the key 1, and JSON keys are strings"),
        ({"data": b"x"}, r"payload.data is bytes, which JSON cannot hold. Encode them as text \(base64\)"),
        ({"tags": {"a"}}, "payload.tags is a set, which JSON cannot hold. Pass a list"),
        ({"x": object()}, "payload.x is of type object, which has no form in JSON"),
        ({"n": 10**5000}, "payload.n is a whole number with more than 4,300 digits"),
        ({"odd key\n": {"a": math.nan}}, r"payload\['odd key\\n'\].a is nan"),
        ({Colour.RED: 1, "red": 2}, "payload has the key 'red' twice"),
        ({"f": lambda: None}, "payload.f is of type function, which has no form in JSON"),
        ({"image": Image(path=object())}, "payload.image cannot be written as JSON: a value is of type object"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(payload: Any, message: str) -> None:
    with pytest.raises(InvalidPayloadError, match=f"^{message}.*; nothing was added$"):
        encode_payload(payload)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(days=1, seconds=2), "P1DT2S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Name.ANN, "ann"),
        (Loud("quiet"), "quiet"),
        (Stamp(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Day(2026, 1, 2), "2026-01-02"),
        (Clock(3, 4), "03:04:00"),
        (Span(days=1), "P1D"),
        (Price("1.10"), "1.10"),
        (True, True),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (ChainMap({"a": 1}, {"a": 2}), {"a": 1}),
        ({Colour.RED: 1, Name.ANN: 2}, {"red": 1, "ann": 2}),
        (Image("a.png", [1]), {"path": "a.png", "sizes": [1]}),
        (Order(7), {"orderNumber": 7}),
        ({"images": [Image("a.png"), Order(1)]}, {"images": [{"path": "a.png", "sizes": []}, {"orderNumber": 1}]}),
    ],
)
def test_values_with_one_obvious_form_are_converted(value: Any, stored: Any) -> None:
    assert json.loads(encode_payload(value)) == stored
    assert json.loads(encode_payload({"in": [value]})) == {"in": [stored]}


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -(2**64), 10**3000])
def test_whole_numbers_of_any_usual_size_stay_exact(number: int) -> None:
    assert json.loads(encode_payload({"n": number})) == {"n": number}


def test_text_that_only_looks_like_an_escaped_nul_is_stored() -> None:
    assert json.loads(encode_payload({"path": r"C:\u0000"})) == {"path": r"C:\u0000"}


@pytest.mark.parametrize("value", [Stamp(2026, 1, 2), Day(2026, 1, 2), Price("1"), Loud("quiet"), Span(1)])
def test_subclasses_are_converted_inside_dataclasses_too(value: Any) -> None:
    assert json.loads(encode_payload(Image(value))) == {"path": json.loads(encode_payload(value)), "sizes": []}


def test_a_nul_inside_a_dataclass_is_found() -> None:
    with pytest.raises(InvalidPayloadError, match=r"payload\.path contains a NUL"):
        encode_payload(Image("a\0"))


def test_not_a_number_inside_a_dataclass_is_found() -> None:
    with pytest.raises(InvalidPayloadError, match=r"payload\.sizes\[0\] is nan"):
        encode_payload(Image("a", [math.nan]))


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def test_nesting_up_to_the_limit_is_stored() -> None:
    assert json.loads(encode_payload(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_nesting_beyond_the_limit_is_refused(levels: int) -> None:
    with pytest.raises(InvalidPayloadError, match="is nested deeper than 256 levels, or contains itself"):
        encode_payload(nested(levels))


def test_nesting_is_counted_through_dataclasses_too() -> None:
    with pytest.raises(InvalidPayloadError, match="is nested deeper than 256 levels"):
        encode_payload(Image(nested(MAX_DEPTH)))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    image = Image("a")
    image.sizes = [image]
    for payload in (loop, {"loop": loop}, image):
        with pytest.raises(InvalidPayloadError, match="contains itself"):
            encode_payload(payload)


def test_a_payload_within_the_size_limit_passes() -> None:
    check_size("resize", '"abc"', 5)


@pytest.mark.parametrize("text", ['"abcd"', '"éé"'])
def test_a_payload_is_measured_in_bytes_and_refused_beyond_the_limit(text: str) -> None:
    with pytest.raises(InvalidPayloadError, match=r"payload of 'resize' has 6 bytes, and the limit is 5; nothing was"):
        check_size("resize", text, 5)
