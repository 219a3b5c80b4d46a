"""What went wrong, told on stderr: one message for people, or one JSON document."""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_lines
from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from ferryman.cli.manner import Manner

_SECRETS = re.compile(r"(?P<url>://[^\s:/@]*:)\S*@|(?P<word>password\s*=\s*)(?:'[^']*'|\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What to tell: the kind of error, the message, and for usage errors how the command is used."""

    kind: str
    message: str
    usage: str | None = None
    cause: BaseException | None = None

    @classmethod
    def of(cls, error: Exception) -> Complaint:
        """Our own errors say all that there is to say; others need a word more."""
        kind = type(error).__name__
        match error:
            case FerrymanError():
                return cls(kind, str(error), cause=error)
            case click.ClickException():
                return cls(kind, error.format_message(), _usage(error), error)
            case OSError():
                return cls(kind, f"the operating system refused: {error}", cause=error)
            case _:
                hint = "Ferryman did not expect this; run the command again with --debug to see where it happened"
                return cls(kind, f"{kind}: {error}. {hint}.", cause=error)


def complain(complaint: Complaint, manner: Manner) -> None:
    """Tell it on stderr, without secrets, and with a traceback only when one was asked for."""
    text = _as_json(complaint, manner) if manner.as_json else _as_text(complaint, manner)
    click.echo(text, err=True)


def without_secrets(text: str) -> str:
    """Hide what looks like a password, wherever a message may have taken it from."""
    return _SECRETS.sub(lambda found: f"{found['url']}***@" if found["url"] else f"{found['word']}***", text)


def _usage(error: click.ClickException) -> str | None:
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return None
    return f"{error.ctx.get_usage()}\nMore: {error.ctx.command_path} --help"


def _as_json(complaint: Complaint, manner: Manner) -> str:
    error = {"type": complaint.kind, "message": without_secrets(complaint.message)}
    if manner.debug and complaint.cause is not None:
        error["traceback"] = _trace(complaint.cause)
    return json.dumps({"error": error})


def _as_text(complaint: Complaint, manner: Manner) -> str:
    parts = [click.style("Error: ", fg="red", bold=True) + clean_lines(without_secrets(complaint.message))]
    if complaint.usage is not None:
        parts.insert(0, complaint.usage)
    if manner.debug and complaint.cause is not None:
        parts.insert(0, clean_lines(_trace(complaint.cause)))
    return "\n".join(parts)


def _trace(error: BaseException) -> str:
    return without_secrets("".join(traceback.format_exception(error)).rstrip())
