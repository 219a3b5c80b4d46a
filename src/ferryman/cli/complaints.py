"""What went wrong, told on stderr: one message for people, or one JSON document."""

from __future__ import annotations

import json
import logging
import os
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_lines
from ferryman.cli.secrets import without_secrets
from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from ferryman.cli.manner import Manner


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
    if manner.as_log:
        _log(complaint, manner)
        return
    text = _as_json(complaint, manner) if manner.as_json else _as_text(complaint, manner)
    # click takes colours off what is no terminal, and does not know NO_COLOR.
    click.echo(text, err=True, color=False if os.environ.get("NO_COLOR") else None)


def _usage(error: click.ClickException) -> str | None:
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return None
    return f"{error.ctx.get_usage()}\nMore: {error.ctx.command_path} --help"


def _as_json(complaint: Complaint, manner: Manner) -> str:
    error = {"type": complaint.kind, "message": without_secrets(complaint.message)}
    if manner.debug and complaint.cause is not None:
        error["traceback"] = _trace(complaint.cause)
    return json.dumps({"error": error})


def _log(complaint: Complaint, manner: Manner) -> None:
    from ferryman.cli.worker.logs import JsonFormatter  # noqa: PLC0415 - of few commands

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    log = logging.Logger("ferryman.cli")  # noqa: LOG001 - apart from the others, which may not be set up yet
    log.addHandler(handler)
    cause = complaint.cause if manner.debug else None
    log.error("%s", complaint.message, exc_info=cause, extra={"event": "command_failed"})


def _as_text(complaint: Complaint, manner: Manner) -> str:
    parts = [click.style("Error: ", fg="red", bold=True) + clean_lines(without_secrets(complaint.message))]
    if complaint.usage is not None:
        parts.insert(0, complaint.usage)
    if manner.debug and complaint.cause is not None:
        parts.insert(0, clean_lines(_trace(complaint.cause)))
    return "\n".join(parts)


def _trace(error: BaseException) -> str:
    return without_secrets("".join(traceback.format_exception(error)).rstrip())
