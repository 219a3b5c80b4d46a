"""The payload argument: JSON text, or `-` for standard input."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import click


def json_payload(text: str) -> Any:
    """The type of an argument: JSON, decoded. Its text is never repeated in a message, for it may hold secrets."""
    source = sys.stdin.buffer.read() if text == "-" else text
    try:
        return json.loads(source, parse_constant=_refuse_constant)
    except RecursionError:
        raise click.BadParameter("it is nested too deeply.") from None
    except ValueError as problem:
        hint = """Quote it for the shell, as in '{"to": "a@b.c"}'."""
        raise click.BadParameter(f"it is not JSON: {_told(problem)}. {hint}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _told(problem: ValueError) -> str:
    return "it is not UTF-8 text" if isinstance(problem, UnicodeError) else str(problem)
