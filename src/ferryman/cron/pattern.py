"""Reads the five fields of a crontab line, in Graphile's grammar: numbers, ranges, lists, `*` and `*/n`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ferryman.cron.timer import CrontabTimer
from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPACE = r"[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""The characters that JavaScript counts as spaces, which are not those of Python."""
FIELD = r"([0-9*/,-]+)"
FIVE_FIELDS = rf"{SPACE}++".join([FIELD] * 5)

_NUMBER = re.compile(r"([0-9]+)")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_WILDCARD = re.compile(r"\*(?:/([0-9]+))?")
_LONGEST_NUMBER = 15


class _Place(NamedTuple):
    """A field by its name in messages. If it `wraps`, the largest value plus one stands for the smallest."""

    name: str
    least: int
    most: int
    wraps: bool = False


PLACES = (
    _Place("minutes", 0, 59),
    _Place("hours", 0, 23),
    _Place("dates", 1, 31),
    _Place("months", 1, 12),
    _Place("days of week", 0, 6, wraps=True),
)


def parse_timer(pattern: str) -> CrontabTimer:
    """Read a pattern such as `0 8 * * 1-5`. Raises `CrontabError` if it is not valid."""
    found = re.fullmatch(FIVE_FIELDS, pattern)  # compiled when it is first needed: that takes a millisecond
    if found is None:
        raise CrontabError(f"Invalid cron pattern {pattern!r}{hint_about(pattern, behind='nothing')}")
    return read_fields(found.groups(), f"pattern {pattern!r}")


def read_fields(fields: Sequence[str], source: str) -> CrontabTimer:
    """Read the timer of five fields. Messages name their `source`."""
    minutes, hours, days, months, weekdays = (
        frozenset(_values(place, field, f"{place.name} range in {source}"))
        for place, field in zip(PLACES, fields, strict=True)
    )
    return CrontabTimer(minutes=minutes, hours=hours, days=days, months=months, weekdays=weekdays)


def hint_about(line: str, behind: str) -> str:
    """Why a line is not five fields with something behind them, as a hint after a message."""
    fields = re.split(rf"{SPACE}+", line)
    for place, field in zip(PLACES, fields, strict=False):
        if not re.fullmatch(FIELD, field):
            return as_hint(f"{field!r} stands where the {place.name} are expected. {_taken_by(place)}")
    missing = [place.name for place in PLACES[len(fields) :]]
    if missing:
        return as_hint(f"There are five fields, and these are missing: {', '.join(missing)}.")
    return as_hint(f"There are five fields, and {behind} behind them.")


def as_hint(text: str) -> str:
    """The text as a hint: on a line of its own after a message."""
    return f"\n  {text}"


def _values(place: _Place, field: str, where: str) -> Iterator[int]:
    for part in field.split(","):
        if found := _NUMBER.fullmatch(part):
            yield _checked(place, _whole(found[1]), where)
        elif found := _RANGE.fullmatch(part):
            first, last = _whole(found[1]), _whole(found[2])
            if last <= first:
                raise _refused(place, f"Invalid range '{part}' in {where}: destination is not larger than source")
            for value in range(first, last + 1):
                yield _checked(place, value, where)
        elif found := _WILDCARD.fullmatch(part):
            step = _whole(found[1] or "1")
            if not step:
                raise _refused(
                    place,
                    f"Invalid wildcard expression '{part}' in {where}: "
                    f"divisor '{found[1]}' expected to be greater than zero",
                )
            yield from range(place.least, place.most + 1, step)
        else:
            raise _refused(
                place,
                f"Unsupported syntax '{part}' in {where}: this doesn't appear to be a number, range or wildcard",
            )


def _whole(digits: str) -> int:
    # Python refuses to read numbers of thousands of digits; the first few are too large already.
    return int(digits.lstrip("0")[:_LONGEST_NUMBER] or "0")


def _checked(place: _Place, value: int, where: str) -> int:
    kept = place.least if place.wraps and value == place.most + 1 else value
    if place.least <= kept <= place.most:
        return kept
    size = "large" if kept > place.most else "small"
    raise CrontabError(
        f"Too {size} value '{value}' in {where}: expected values in the range {place.least}-{place.most}."
    )


def _refused(place: _Place, message: str) -> CrontabError:
    return CrontabError(message + as_hint(_taken_by(place)))


def _taken_by(place: _Place) -> str:
    least, most = place.least, place.most
    return (
        f"The {place.name} take {least}-{most}: a number, a range such as {least}-{least + 4}, *, */n, "
        f"or a list of these such as {least},{least + 4}."
    )
