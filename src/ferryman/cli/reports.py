"""What a command has to say: a JSON document for programs, or lines and tables for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import click
import msgspec
from rich.console import Console
from rich.table import Table

from ferryman.cli.clean import clean_lines
from ferryman.cli.tables import least_width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

UNLIMITED_COLUMNS = 1_000_000
_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


class Report(Protocol):
    """The result of a command."""

    @property
    def exit_code(self) -> int:
        """0, or 1 when nothing was done."""

    def document(self) -> object:
        """Everything, as values that JSON has."""

    def lines(self) -> Iterable[RenderableType]:
        """What people read."""


def emit(report: Report, *, as_json: bool) -> int:
    """Write the report to stdout, and return the exit code."""
    if as_json:
        click.echo(json_line(report.document()))
    else:
        console = make_console()
        for line in report.lines():
            if isinstance(line, Table):
                console.width = max(console.width, least_width(line))
            console.print(clean_lines(line) if isinstance(line, str) else line, crop=False)
    return report.exit_code


def json_line(document: object) -> bytes:
    """The document on one line, in UTF-8 whatever the terminal speaks."""
    encoded = msgspec.json.encode(document)
    try:
        return msgspec.json.format(encoded, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        # A payload that PostgreSQL took and msgspec does not read, such as half a surrogate pair: passed on as it is,
        # but for white space, in which there may be line breaks.
        return _STRING_OR_SPACE.sub(lambda found: found[1] or b"", encoded)


def make_console() -> Console:
    """A console that takes text as it is, and cuts lines only to fit a terminal."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED_COLUMNS
    return console
