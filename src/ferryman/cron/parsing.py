"""Reads crontab text: one entry per line, in Graphile Worker's grammar.

The messages are those of Graphile Worker, so that searches for them still help. A hint follows some of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from ferryman.cron.crontab import Crontab
from ferryman.cron.json5 import JSON5Error, read_json5
from ferryman.cron.line_options import read_options
from ferryman.cron.pattern import FIVE_FIELDS, SPACE, as_hint, hint_about, read_fields
from ferryman.cron.zones import zone_named
from ferryman.errors import CrontabError, InvalidPayloadError
from ferryman.payloads import encode_payload

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACES = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_ANY = r"[^\n\r\u2028\u2029]"
_LINE = re.compile(rf"{FIVE_FIELDS}{SPACE}++({_ANY}*+)")
_COMMAND = re.compile(
    rf"([_a-zA-Z][_a-zA-Z0-9:/_-]*)(?:{SPACE}+\?((?:(?!{SPACE})[\s\S])+))?(?:{SPACE}+(\{{{_ANY}*\}}))?"
)


def parse_crontab(text: str, *, time_zone: str = "UTC") -> list[Crontab]:
    """Read the entries of a crontab. Raises `CrontabError` with every problem that it has.

    Each line has five fields, the identifier of a task, and optionally options and a payload:

        0 8 * * 1-5  send_report  ?fill=1d&queue=reports&tz=Europe/Paris  {to: "team"}

    time_zone: the time zone of lines without `tz`
    """
    zone_named(time_zone)
    entries: dict[int, Crontab] = {}
    problems: list[str] = []
    for number, line in enumerate(re.split(r"\r?\n", text), start=1):
        content = line.strip(_SPACES)
        if content and not content.startswith("#"):
            try:
                entries[number] = _read_line(content, number, time_zone)
            except CrontabError as error:
                problems += error.problems
    problems += _duplicates(entries.items())
    if problems:
        raise CrontabError(*problems)
    return list(entries.values())


def _read_line(line: str, number: int, time_zone: str) -> Crontab:
    found = _LINE.fullmatch(line)
    if found is None:
        hint = hint_about(line, behind="the identifier of a task")
        raise CrontabError(f"Could not process line '{number}' of crontab: '{line}'{hint}")
    *fields, command = found.groups()
    timer = read_fields(fields, f"line {number} of crontab")
    parts = _COMMAND.fullmatch(command)
    if parts is None:
        raise _bad_command(number, "Give a task, ?options and an {object} after the fields: send_report ?max=3 {a: 1}")
    task, options_text, payload_text = parts.groups()
    options = {"time_zone": time_zone, **read_options(options_text or "", number)}
    payload_json = None if payload_text is None else _read_payload(payload_text, number)
    try:
        return Crontab(timer, task, payload_json=payload_json, **options)
    except CrontabError as error:
        raise _bad_command(number, str(error)) from None


def _bad_command(number: int, hint: str) -> CrontabError:
    return CrontabError(f"Invalid command specification in line {number} of crontab.{as_hint(hint)}")


def _read_payload(text: str, number: int) -> str:
    try:
        return encode_payload(read_json5(text))
    except (JSON5Error, InvalidPayloadError) as error:
        problem = str(error).removesuffix("; nothing was added")
        raise CrontabError(f"Failed to parse JSON5 payload on line {number} of crontab: {problem}") from None


def _duplicates(entries: Iterable[tuple[int, Crontab]]) -> list[str]:
    lines: dict[str, list[int]] = defaultdict(list)
    for number, entry in entries:
        lines[entry.identifier].append(number)
    repeated = {identifier: numbers for identifier, numbers in sorted(lines.items()) if len(numbers) > 1}
    if not repeated:
        return []
    named = "', '".join(identifier for identifier, numbers in repeated.items() for _ in numbers[1:])
    places = "; ".join(
        f"{identifier}: lines {', '.join(map(str, numbers))}" for identifier, numbers in repeated.items()
    )
    problem = (
        f"Invalid crontab; duplicate identifiers found: '{named}' - please use '?id=...' "
        f"to specify unique identifiers for your cron items"
    )
    return [problem + as_hint(f"They are: {places}.")]
