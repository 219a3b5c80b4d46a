"""Makes up crontab lines, right and wrong ones, the same on each run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
SPACES = (" ", " ", " ", "  ", "\t", " \t ", "\u00a0")
TASKS = ("task", "_task", "a", "send_email", "ns:task", "folder/sub/task-1", "Task9", "t" * 129, "1task", "é", "a.b")
OPTIONS = {
    "id": ("a", "_b-1", "Z9", "1a", "a b", "", "ä", "%41"),
    "fill": ("1d", "4w3d2h1m", "5s", "0s", "1m1m", "1h1w", "012h", "1", "d", "1y", "", "1d ", "900w", "99999999999d"),
    "max": ("1", "25", "007", "32767", "32768", "0", "-1", "1.5", "", "x", "99999999999999"),
    "queue": ("q", "a:b-c_1", "q" * 128, "q" * 129, "", "a.b", "a%20b", "a/b"),
    "jobKey": ("k", "", "a b", "a+b", "%E2%82%AC", "€", "a=b", "%0A", "k" * 513, "%zz", "%"),
    "jobKeyMode": ("replace", "preserve_run_at", "unsafe_dedupe", "", "Replace"),
    "priority": ("0", "-1", "10", "-32768", "32768", "-99999", "--1", "+1", "1e3"),
    "tz": ("Europe/Paris", "UTC", "Nowhere"),
    "unknown": ("1", ""),
    "job_key": ("1",),
    "": ("1",),
}
VALUES = (
    *(
        "1",
        "-1",
        "+1",
        "0",
        "-0",
        "0.5",
        ".5",
        "5.",
        "1.0",
        "1e3",
        "1E-2",
        "1e+2",
        "0x1F",
        "-0xa",
        "01",
        "1e",
        "0x",
        ".",
    ),
    *("12345678901234567890", "9007199254740993", "1e400", "Infinity", "-Infinity", "NaN", "+-1", "1_000"),
    *("true", "false", "null", "True", "undefined", "nul", "'a'", '"b"', "'it\\'s'", '"\\x41\\u0042"', "'\\0'"),
    *("'\\1'", "'\\01'", "'\\ud83d\\ude00'", "'\\ud83d'", "'é😀'", "'\\u12'", "'\\q\\/'", "'#'", "'a", "'\\\\'"),
    *("[]", "[1,]", "[,]", "[1 2]", "[1,[2,[3]]]", "{}", "{a: 1,}", "{,}", "[/* c */ 1]", "[1 // c", "/1", "''"),
)
KEYS = ("a", "$b", "_c", "'d e'", '"f"', "é", "\\u0061b", "\\u0031", "1a", "a-b", "ünï", "null", "__proto__", "", "g h")
NOISE = "0123456789*/,-?&={}[]'\"\\# \tabx:%+\u2028\x00é😀\ufeff\x1f\x85"
LARGEST = (7, 31, 59, 60, 61, 99, 100, 4_294_967_296)


def lines(count: int, seed: int) -> Iterator[str]:
    """So many lines. Somewhat more than half of them are right."""
    chance = random.Random(seed)
    for _ in range(count):
        line = _line(chance)
        if chance.random() < 0.12:
            line = _damaged(chance, line)
        yield line


def files(count: int, seed: int) -> Iterator[str]:
    """Texts of several lines, with comments, blank lines and now and then an identifier that comes twice."""
    chance = random.Random(seed)
    for _ in range(count):
        parts = []
        for number in range(chance.randint(0, 5)):
            fields = " ".join(_field(chance, *bounds, clean=True) for bounds in FIELDS)
            name = "same" if chance.random() < 0.15 else f"task{number}"
            id_option = f" ?id=other{number}" if chance.random() < 0.3 else ""
            parts += chance.choices(("", "  ", "# comment", "  # 0 0 * * * x"), k=chance.randint(0, 2))
            parts.append(f"{fields} {name}{id_option}" if chance.random() < 0.96 else "broken")
        yield chance.choice(("\n", "\r\n")).join(parts)


def _line(chance: random.Random) -> str:
    fields = [_field(chance, *bounds, clean=chance.random() < 0.97) for bounds in FIELDS]
    parts = [*fields, chance.choices(TASKS, weights=(9, 9, 9, 9, 9, 9, 9, 1, 1, 1, 1))[0]]
    if chance.random() < 0.4:
        parts.append("?" + "&".join(_option(chance) for _ in range(chance.randint(0, 3))))
    if chance.random() < 0.4:
        parts.append(_object(chance))
    return "".join(part + chance.choice(SPACES) for part in parts)


def _field(chance: random.Random, least: int, most: int, *, clean: bool) -> str:
    return ",".join(_part(chance, least, most, clean=clean) for _ in range(chance.choice((1, 1, 1, 2, 3))))


def _part(chance: random.Random, least: int, most: int, *, clean: bool) -> str:
    if not clean and chance.random() < 0.5:
        value = str(chance.choice(LARGEST))
        return chance.choice(
            (value, f"0-{value}", f"{value}-{value}", "*/0", "", "*/", "5-", "-", "1-2-3", "3-1", "1-9/2", "**")
        )
    first, second = sorted(chance.sample(range(least, most + 1), 2))
    return chance.choice(("*", f"*/{chance.randint(1, most + 3)}", str(first), f"0{second}", f"{first}-{second}"))


def _option(chance: random.Random) -> str:
    weights = (6, 8, 6, 6, 6, 4, 6, 1, 1, 1, 1)
    key = chance.choices(tuple(OPTIONS), weights=weights)[0]
    values = OPTIONS[key]
    # The first ones are right.
    value = values[0] if chance.random() < 0.6 else chance.choice(values)
    return f"{key}={value}" if chance.random() < 0.98 else key


def _object(chance: random.Random) -> str:
    right = chance.random() < 0.6
    items = [f"{_key(chance, right=right)}: {_value(chance, right=right)}" for _ in range(chance.randint(0, 3))]
    return "{" + chance.choice((", ", ",", " , ")).join(items) + chance.choice(("", "", ",", " /* c */ ")) + "}"


def _key(chance: random.Random, *, right: bool) -> str:
    return chance.choice(KEYS[:7] if right else KEYS)


def _value(chance: random.Random, *, right: bool) -> str:
    return chance.choice(VALUES[:14] if right else VALUES)


def _damaged(chance: random.Random, line: str) -> str:
    for _ in range(chance.randint(1, 2)):
        place = chance.randrange(len(line) + 1)
        line = line[:place] + chance.choice(("", chance.choice(NOISE))) + line[place + chance.randint(0, 1) :]
    return line
