"""Logs on stderr: lines for people, or one JSON document on each line."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.complaints import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS = ("job_id", "task", "attempt", "worker_id")
"""What is known about the job, on lines for people too."""
MORE_FIELDS = ("event", "duty", "hook", "crontab", "signal", "count")
"""What happened, for programs that read logs: the name of an event stays when its sentence changes."""


class TextFormatter(logging.Formatter):
    """Time, level, message, and what is known about the job."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it when there is one."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        job = "".join(f" {name}={clean_line(str(value))}" for name, value in _fields(record, FIELDS).items())
        trace = _trace(self, record)
        text = f"{moment} {record.levelname:<7} {record.getMessage()}{job}" + (f"\n{trace}" if trace else "")
        return clean_lines(without_secrets(text))


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


def set_up_logs(form: str, level: str) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        logging.getLogger("psycopg").setLevel(logging.WARNING)  # what matters of it, the worker says itself


def _fields(record: logging.LogRecord, names: Sequence[str]) -> dict[str, object]:
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    return "\n".join(part for part in (record.exc_text, record.stack_info) if part)
