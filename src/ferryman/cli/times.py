"""Times on the command line: `now`, `+1h30m` from now, or ISO 8601 with a time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_RELATIVE = re.compile(r"\+(?=[0-9])" + "".join(f"(?:(?P<{name}>[0-9]+){unit})?" for unit, name in _UNITS.items()))
_FORMS = "Give 2030-01-31T09:30:00Z, 2030-01-31T09:30:00+01:00, +5m, +1h30m or now."


def moment(text: str) -> datetime:
    """The type of an option: a time in UTC. What is relative counts from this machine's clock."""
    try:
        return read_moment(text, datetime.now(UTC))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def span(text: str) -> timedelta:
    """The type of an option: how long, as in 90s or 1h30m."""
    found = _RELATIVE.fullmatch(f"+{text}")
    if found is None:
        raise click.BadParameter(f"{text!r} is not a span of time. Give 90s, 5m or 1h30m; units are w, d, h, m, s.")
    try:
        return _timedelta(found)
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long.") from None


def read_moment(text: str, now: datetime) -> datetime:
    """The time that `text` means; `ValueError` says how to write it."""
    try:
        if text.startswith("+"):
            return now + _span(text)
        return now if text == "now" else _absolute(text)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away.") from None


def _span(text: str) -> timedelta:
    found = _RELATIVE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time from now; units are w, d, h, m, s in this order. {_FORMS}")
    return _timedelta(found)


def _timedelta(found: re.Match[str]) -> timedelta:
    return timedelta(**{name: int(number) for name, number in found.groupdict().items() if number is not None})


def _absolute(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time. {_FORMS}") from None
    if found.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone. Add Z for UTC, or an offset: {found.isoformat()}Z")
    return found.astimezone(UTC)
