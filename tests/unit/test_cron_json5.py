"""JSON5, as far as JSON can store it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ferryman.cron.json5 import JSON5Error, read_json5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("[]", []),
        ("null", None),
        ("true", True),
        ("false", False),
        (
            "{a: 1, $b: 2, _c: 3, 'd e': 4, \"f\": 5, é: 6, \\u0061b: 7}",
            {"a": 1, "$b": 2, "_c": 3, "d e": 4, "f": 5, "é": 6, "ab": 7},
        ),
        ("{a: 1,}", {"a": 1}),
        ("[1, 2,]", [1, 2]),
        ("{a: 1, a: 2}", {"a": 2}),
        (" // first\n{ /* second ** */ a: // third\n 1 }\t\u00a0\ufeff", {"a": 1}),
        ("'it\\'s'", "it's"),
        ('"it\'s"', "it's"),
        ("'\\b\\f\\n\\r\\t\\v\\0\\x41\\u00e9\\q'", "\b\f\n\r\t\v\0Aéq"),
        ("'\\ud83d\\ude00'", "😀"),
        ("'a\\\nb\\\r\nc'", "abc"),
        ("'\u2028'", "\u2028"),
    ],
)
def test_it_reads_what_people_write(text: str, value: Any) -> None:
    assert read_json5(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("-7", -7),
        ("0x1F", 31),
        ("-0Xa", -10),
        (".5", 0.5),
        ("5.", 5),
        ("-1.25", -1.25),
        ("1e3", 1000),
        ("1.5E-2", 0.015),
        ("5.e1", 50),
        ("9007199254740993", 9007199254740993),
        ("1e300", 1e300),
    ],
)
def test_it_reads_numbers_and_keeps_whole_ones_whole(text: str, value: float) -> None:
    read = read_json5(text)

    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "invalid end of input at 1:1"),
        ("{", "invalid end of input at 1:2"),
        ("{a", "invalid end of input at 1:3"),
        ("{a:", "invalid end of input at 1:4"),
        ("{a: 1", "invalid end of input at 1:6"),
        ("[1 2]", "invalid character '2' at 1:4"),
        ("[,]", "invalid character ',' at 1:2"),
        ("{,}", "invalid character ',' at 1:2"),
        ("{1a: 1}", "invalid character '1' at 1:2"),
        ("{a b: 1}", "invalid character 'b' at 1:4"),
        ("{\\u0031: 1}", "invalid identifier character at 1:2"),
        ("{\\x: 1}", "invalid character 'x' at 1:3"),
        ("01", "invalid character '1' at 1:2"),
        ("+-1", "invalid character '-' at 1:2"),
        ("1e", "invalid end of input at 1:3"),
        ("0xg", "invalid character 'g' at 1:3"),
        (".", "invalid end of input at 1:2"),
        ("nul", "invalid end of input at 1:4"),
        ("True", "invalid character 'T' at 1:1"),
        ("'a", "invalid end of input at 1:3"),
        ("'a\nb'", "invalid character '\\n' at 1:3"),
        ("'\\1'", "invalid character '1' at 1:3"),
        ("'\\u12'", "invalid character '\\'' at 1:6"),
        ("/1", "invalid character '1' at 1:2"),
        ("/* ", "invalid end of input at 1:4"),
        ("{} x", "invalid character 'x' at 1:4"),
        ("['😀' x]", "invalid character 'x' at 1:7"),
        ("[\n  x]", "invalid character 'x' at 2:3"),
    ],
)
def test_it_says_where_a_text_is_wrong(text: str, place: str) -> None:
    with pytest.raises(JSON5Error) as caught:
        read_json5(text)

    assert str(caught.value) == f"JSON5: {place}"


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "+NaN", "[NaN]", "1e400", "-1e999"])
def test_it_refuses_numbers_that_json_cannot_store(text: str) -> None:
    with pytest.raises(JSON5Error, match="stored as JSON"):
        read_json5(text)


def test_whatever_is_json_is_read_as_json() -> None:
    chance = random.Random(5)
    for _ in range(300):
        value = _made_up(chance, 4)
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
            assert read_json5(text) == value


def _made_up(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [_made_up(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {_text(chance): _made_up(chance, depth - 1) for _ in range(chance.randrange(4))}
    return (None, chance.random() < 0.5, chance.randint(-(10**20), 10**20), chance.uniform(-1e9, 1e9), _text(chance))[
        kind
    ]


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("ab'\"\\/\n\t\x01é😀\u2028{}[]:,#", k=chance.randrange(6)))
