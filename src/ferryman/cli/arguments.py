"""Types of arguments: numbers with bounds, sizes of memory, times and spans of time, JSON payloads.

Each number has a least and a greatest value, which the help page and every refusal name.
"""

from __future__ import annotations

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import click

from ferryman.jobs import SMALLINT_MAX, SMALLINT_MIN

MOST_PROCESSES = 1024
MOST_CONCURRENCY = 10_000
MOST_CONNECTIONS = 10_000
MOST_SECONDS = 604_800.0
"""A week."""
MOST_JOBS = 1_000_000_000
MAX_PAGE_SIZE = 10_000
LARGEST_ID = 2**63 - 1
"""The largest bigint of PostgreSQL."""

_MEMORY_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(?P<number>[0-9]{1,20})(?P<unit>[KMGTkmgt]?)(?:i?[Bb])?")
_TIME_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_RELATIVE = re.compile(r"\+(?=[0-9])" + "".join(f"(?:(?P<{name}>[0-9]+){unit})?" for unit, name in _TIME_UNITS.items()))
_FORMS = "Give 2030-01-31T09:30:00Z, 2030-01-31T09:30:00+01:00, +5m, +1h30m or now."


class WholeNumber(click.IntRange):
    """A whole number from `least` to `most`."""

    name = "whole number"

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)

    def get_metavar(self, param: click.Parameter, ctx: Any = None) -> str:  # noqa: ARG002 - click's
        """Return the placeholder for the number on the help page."""
        return "N"


class Number(click.FloatRange):
    """A number from `least` to `most`, fractions included. Never NaN.

    unit: what is counted, in the plural
    """

    def __init__(self, least: float, most: float, unit: str) -> None:
        super().__init__(least, most)
        self.name = unit
        self._unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, within its range. click takes NaN to be within every range."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number of {self._unit}.", param, ctx)
        return float(number)


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes from `least` to `most`, as in `512M`, `2G`, or plain bytes."""

    name = "size"

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not a size. Give 512M, 2G or a number of bytes; units are K, M, G, T.", param, ctx)
        size = int(found["number"]) * _MEMORY_UNITS[found["unit"].upper()]
        if not self._least <= size <= self._most:
            least, most = (f"{limit // 1024**2:,}M" for limit in (self._least, self._most))
            self.fail(f"{value} is not in the range from {least} to {most}.", param, ctx)
        return size


JOBS = WholeNumber(1, MOST_JOBS)
PROCESSES = WholeNumber(1, MOST_PROCESSES)
CONCURRENCY = WholeNumber(1, MOST_CONCURRENCY)
CONNECTIONS = WholeNumber(1, MOST_CONNECTIONS)
PORT = WholeNumber(0, 65_535)
JOB_ID = WholeNumber(1, LARGEST_ID)
PRIORITY = WholeNumber(SMALLINT_MIN, SMALLINT_MAX)
ATTEMPTS = WholeNumber(0, SMALLINT_MAX)
MAX_ATTEMPTS = WholeNumber(1, SMALLINT_MAX)


def moment(text: str) -> datetime:
    """Read a time: ISO 8601 with a zone, `now`, or `+1h30m` from now by this machine's clock. Returned in UTC."""
    try:
        return read_moment(text, datetime.now(UTC))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def span(text: str) -> timedelta:
    """Read a span of time, as in 90s or 1h30m."""
    found = _RELATIVE.fullmatch(f"+{text}")
    if found is None:
        raise click.BadParameter(f"{text!r} is not a span of time. Give 90s, 5m or 1h30m; units are w, d, h, m, s.")
    try:
        return _timedelta(found)
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long.") from None


def read_moment(text: str, now: datetime) -> datetime:
    """Return the time that `text` means. The `ValueError` for another text says how to write a time."""
    try:
        if text.startswith("+"):
            return now + _time_from_now(text)
        return now if text == "now" else _absolute_time(text)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away.") from None


def json_payload(text: str) -> Any:
    """Decode a JSON payload, read from standard input if `text` is `-`.

    Errors never repeat the text, which may contain secrets.
    """
    source = sys.stdin.buffer.read() if text == "-" else text
    try:
        return json.loads(source, parse_constant=_refuse_constant)
    except RecursionError:
        raise click.BadParameter("it is nested too deeply.") from None
    except ValueError as problem:
        reason = "it is not UTF-8 text" if isinstance(problem, UnicodeError) else problem
        hint = """Quote it for the shell, as in '{"to": "a@b.c"}'."""
        raise click.BadParameter(f"it is not JSON: {reason}. {hint}") from None


def _time_from_now(text: str) -> timedelta:
    found = _RELATIVE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time from now; units are w, d, h, m, s in this order. {_FORMS}")
    return _timedelta(found)


def _timedelta(found: re.Match[str]) -> timedelta:
    return timedelta(**{name: int(number) for name, number in found.groupdict().items() if number is not None})


def _absolute_time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time. {_FORMS}") from None
    if found.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone. Add Z for UTC, or an offset: {found.isoformat()}Z")
    return found.astimezone(UTC)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
