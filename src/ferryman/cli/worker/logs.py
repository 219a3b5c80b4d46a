"""Logs on stderr: lines for people, or one JSON document on each line."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.cli.worker.turns import Turns

FIELDS = ("job_id", "task", "attempt", "worker_id")
"""What is known about the job."""
MORE_FIELDS = (
    "event", "duty", "hook", "crontab", "signal", "count", "seconds", "run_at",
    "round_trip", "least_grace", "lock", "pid", "application_name", "role",
)  # fmt: skip
"""What happened, for programs that read logs: the name of an event stays when its sentence changes."""
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31;1", "CRITICAL": "31;1"}


class TextFormatter(logging.Formatter):
    """Time, level and message, for people.

    verbose: whether the fields of a record follow its message
    colours: whether the level is coloured, and the time faint
    """

    def __init__(self, *, verbose: bool = False, colours: bool = False) -> None:
        super().__init__()
        self._names = FIELDS + MORE_FIELDS if verbose else ()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it when there is one."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname:<7}"
        if self._colours:
            moment, level = f"\x1b[2m{moment}\x1b[0m", f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        fields = "".join(f" {name}={clean_line(str(value))}" for name, value in _fields(record, self._names).items())
        trace = _trace(self, record)
        text = f"{record.getMessage()}{fields}" + (f"\n{trace}" if trace else "")
        return f"{moment} {level} {clean_lines(without_secrets(text))}"


class JsonFormatter(logging.Formatter):
    """One document: time, level, logger, message, the fields of the job, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The document on one line."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **_fields(record, MORE_FIELDS + FIELDS),
        }
        trace = _trace(self, record)
        if trace:
            document["traceback"] = without_secrets(trace)
        return json.dumps(document, default=str)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes whole lines, also beside other processes that write to the same pipe."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record in this process's turn."""
        with self._turns.turn():
            super().emit(record)


def set_up_logs(form: str, level: str, *, verbose: bool = False, turns: Turns | None = None) -> None:
    """Send all logs of this process to stderr, in turn with other processes if there are others."""
    handler = logging.StreamHandler() if turns is None else _LineHandler(turns)
    text = TextFormatter(verbose=verbose, colours=has_colours())
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        logging.getLogger("psycopg").setLevel(logging.WARNING)  # what matters of it, the worker says itself


def has_colours() -> bool:
    """True if stderr is a terminal that shows colours, and NO_COLOR does not forbid them."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _fields(record: logging.LogRecord, names: Sequence[str]) -> dict[str, object]:
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    return "\n".join(part for part in (record.exc_text, record.stack_info) if part)
