"""Turns everything that can end a command into a message on stderr and an exit code.

0  done
1  an error, or nothing was changed; the reader of the output left
2  the command line was not understood
130  interrupted by Ctrl-C
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import click

from ferryman.cli.early_signals import INTERRUPTED, WORKER_COMMANDS
from ferryman.cli.sanitize import clean_lines, without_secrets
from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOT_DONE = 1


class NotFoundError(FerrymanError):
    """The requested object does not exist."""


class RowsHiddenError(FerrymanError):
    """Row security hides every row of a table from this role."""


class NotConfirmedError(FerrymanError):
    """The user was asked, and did not say yes."""


@dataclass(frozen=True, slots=True)
class ErrorFormat:
    """How to report an error: as text, as a JSON document or as a line of a JSON log; with a traceback or without.

    It is known before the arguments are understood, so that a usage error is reported in it too.
    """

    as_json: bool = False
    debug: bool = False
    as_log: bool = False

    @classmethod
    def wanted_by(cls, arguments: Sequence[str]) -> ErrorFormat:
        """Read the format from the raw arguments and the environment."""
        options = list(takewhile(lambda argument: argument != "--", arguments))
        debug = os.environ.get("FERRYMAN_DEBUG", "") not in {"", "0"}
        return cls("--json" in options, debug or "--debug" in options, _wants_json_logs(options))


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error as it is reported: its kind, the message, and for a usage error how the command is used."""

    kind: str
    text: str
    usage: str | None = None
    cause: BaseException | None = None

    @classmethod
    def of(cls, error: Exception) -> ErrorMessage:
        """Describe an error. Ferryman's own errors say all there is to say; others get an explanation."""
        kind = type(error).__name__
        match error:
            case FerrymanError():
                return cls(kind, str(error), cause=error)
            case click.ClickException():
                return cls(kind, error.format_message(), _usage(error), error)
            case OSError():
                return cls(kind, f"the operating system reported an error: {error}", cause=error)
            case _:
                hint = "Ferryman did not expect this error. Run the command again with --debug to see where it happened"
                return cls(kind, f"{kind}: {error}. {hint}.", cause=error)


def run_and_report(run: Callable[[], Any], error_format: ErrorFormat) -> int:
    """Run a command, report what went wrong, and return the exit code."""
    _prepare_streams()
    if not error_format.debug:
        _silence_logs()
    try:
        code = run()
        if sys.stdout is not None:  # it is None when the process was started with it closed
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return NOT_DONE
    except click.Abort:
        report_error(ErrorMessage("Interrupted", "interrupted."), error_format)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a user gets a sentence, not a traceback
        report_error(ErrorMessage.of(error), error_format)
        return error.exit_code if isinstance(error, click.ClickException) else NOT_DONE
    return code if isinstance(code, int) else 0


def report_error(message: ErrorMessage, error_format: ErrorFormat) -> None:
    """Write a message to stderr, without secrets, and with a traceback only if one was asked for."""
    if error_format.as_log:
        _log(message, debug=error_format.debug)
        return
    text = (_as_json if error_format.as_json else _as_text)(message, debug=error_format.debug)
    # click removes colours where there is no terminal, but does not know NO_COLOR.
    click.echo(text, err=True, color=False if os.environ.get("NO_COLOR") else None)


def _wants_json_logs(options: Sequence[str]) -> bool:
    if WORKER_COMMANDS.isdisjoint(options[:1]):
        return False
    words = " ".join(options).replace("=", " ").split()
    given = [value for name, value in pairwise(words) if name == "--log-format"]
    return (given or [os.environ.get("FERRYMAN_LOG_FORMAT", "")])[-1] == "json"


def _usage(error: click.ClickException) -> str | None:
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return None
    return f"{error.ctx.get_usage()}\nMore: {error.ctx.command_path} --help"


def _as_json(message: ErrorMessage, *, debug: bool) -> str:
    error = {"type": message.kind, "message": without_secrets(message.text)}
    if debug and message.cause is not None:
        error["traceback"] = _traceback(message.cause)
    return json.dumps({"error": error})


def _as_text(message: ErrorMessage, *, debug: bool) -> str:
    parts = [click.style("Error: ", fg="red", bold=True) + clean_lines(without_secrets(message.text))]
    if message.usage is not None:
        parts.insert(0, message.usage)
    if debug and message.cause is not None:
        parts.insert(0, clean_lines(_traceback(message.cause)))
    return "\n".join(parts)


def _log(message: ErrorMessage, *, debug: bool) -> None:
    from ferryman.cli.worker.log_output import JsonFormatter  # noqa: PLC0415 - few commands log

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    log = logging.Logger("ferryman.cli")  # noqa: LOG001 - apart from the others, which may not be set up yet
    log.addHandler(handler)
    log.error("%s", message.text, exc_info=message.cause if debug else None, extra={"event": "command_failed"})


def _traceback(error: BaseException) -> str:
    return without_secrets("".join(traceback.format_exception(error)).rstrip())


def _prepare_streams() -> None:
    # A character that the terminal cannot show must not end the command.
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _silence_logs() -> None:
    # These loggers' messages are raised as errors or reported by the command as well, and would appear twice.
    for name in ("psycopg", "ferryman"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def _discard_output() -> None:
    # Python flushes stdout once more at exit, and would fail again.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
