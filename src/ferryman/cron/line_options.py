"""Reads the options of a crontab line: `?id=…&fill=…&max=…`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from ferryman.cron.fill import CrontabFill
from ferryman.cron.pattern import as_hint
from ferryman.cron.zones import zone_named
from ferryman.errors import CrontabError, InvalidJobError
from ferryman.jobs import MAX_KEY_LENGTH, JobKeyMode, JobSpec, check_text

if TYPE_CHECKING:
    from collections.abc import Callable

_FILL_PART = re.compile(r"([0-9]+)([smhdw])")
_LONGEST_NUMBER = 18


def read_options(text: str, line: int) -> dict[str, Any]:
    """Read the options as keyword arguments of `Crontab`. Raises `CrontabError` for the first wrong one."""
    given: dict[str, list[str]] = {}
    for key, value in _pairs(text):
        given.setdefault(key, []).append(value)
    read: dict[str, Any] = {}
    for key, values in given.items():
        if len(values) > 1:
            raise CrontabError(
                f"Options on line {line} of crontab contains invalid value for '{key}', "
                f"did you specify it more than once?"
            )
        read |= _read_option(key, values[0], line)
    if "job_key" in read:
        read.setdefault("job_key_mode", JobKeyMode.REPLACE)
    return read


def read_fill(phrase: str) -> CrontabFill:
    """Read a time phrase such as 1d12h."""
    counts = dict.fromkeys("wdhms", 0)
    for digits, unit in _FILL_PART.findall(phrase):
        # Cut off: such a number is too large anyway, and Python refuses to read thousands of digits.
        counts[unit] += int(digits.lstrip("0")[:_LONGEST_NUMBER] or "0")
    return CrontabFill(*counts.values())


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = (part.partition("=") for part in text.split("&") if part)
    return [(unquote_plus(key), unquote_plus(value)) for key, _, value in parts]


def _read_option(key: str, value: str, line: int) -> dict[str, Any]:
    if key not in _OPTIONS:
        supported = "', '".join(name for name in _OPTIONS if name != "tz")
        raise CrontabError(
            f"Options on line {line} of crontab contains unsupported key '{key}'; supported keys are: '{supported}'."
            + as_hint("Ferryman takes 'tz' too, the name of a time zone.")
        )
    name, form, read = _OPTIONS[key]
    hint = ""
    if form.fullmatch(value):
        try:
            return {name: read(value)}
        except (CrontabError, InvalidJobError) as error:
            hint = as_hint(str(error))
    raise CrontabError(
        f"Options on line {line} of crontab contains invalid value for '{key}', "
        f"value '{value}' is not compatible with this option.{hint}"
    )


def _checked_by_spec(name: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda value: getattr(JobSpec(**{name: convert(value)}), name)


def _number(text: str) -> int:
    negative, digits = text.startswith("-"), text.lstrip("-").lstrip("0")[:_LONGEST_NUMBER]
    return int(digits or "0") * (-1 if negative else 1)


def _zone(name: str) -> str:
    # No zone has a space in its name. This one was a plus sign, as in Etc/GMT+5.
    name = name.replace(" ", "+")
    zone_named(name)
    return name


_OPTIONS: dict[str, tuple[str, re.Pattern[str], Callable[[str], Any]]] = {
    "id": ("id", re.compile(r"[_a-zA-Z][-_a-zA-Z0-9]*"), lambda value: check_text("id", value, MAX_KEY_LENGTH)),
    "fill": ("fill", re.compile(r"(?:[0-9]+[smhdw])+"), read_fill),
    "max": ("max_attempts", re.compile(r"[0-9]+"), _checked_by_spec("max_attempts", _number)),
    "queue": ("queue_name", re.compile(r"[-a-zA-Z0-9_:]+"), _checked_by_spec("queue_name", str)),
    "jobKey": ("job_key", re.compile(r"[^\n\r\u2028\u2029]*"), _checked_by_spec("job_key", str)),
    "jobKeyMode": ("job_key_mode", re.compile(r"replace|preserve_run_at"), JobKeyMode),
    "priority": ("priority", re.compile(r"-?[0-9]+"), _checked_by_spec("priority", _number)),
    "tz": ("time_zone", re.compile(r"[^\n\r\u2028\u2029]+"), _zone),
}
"""Each option: its field in `Crontab`, the form of its text, and its reader."""
