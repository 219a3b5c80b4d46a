"""Writes logs to stderr: lines for people, or one JSON document on each line; one process at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import select
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from ferryman.cli.sanitize import clean_line, clean_lines, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIELDS = ("job_id", "task", "attempt", "worker_id")
"""Fields that name the job or the worker."""
MORE_FIELDS = (
    "event", "duty", "hook", "crontab", "signal", "count", "seconds", "run_at",
    "round_trip", "least_grace", "lock", "pid", "application_name", "role",
)  # fmt: skip
"""Fields for programs that read logs: the name of an event stays when its sentence changes."""
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31;1", "CRITICAL": "31;1"}

MOST_LOOKS = 10_000
"""How often a process looks for a lock that another one does not release: for at least 5 s. That one has stopped within
a line, and must not stop the others. Looks at a full pipe do not count: then no process could write."""
PAUSE_SECONDS = 0.0005
_STDERR = 2


class LogLock:
    """Lets the processes of one supervisor write whole lines to the same pipe.

    The kernel keeps only writes of up to 4,096 bytes whole; longer ones of several processes may be mixed. Processes
    share the lock by inheriting its descriptor, and it is released when the process that holds it dies. It does not
    keep the threads of one process apart: a logging handler does that itself.

    output: the descriptor that all of them write to
    """

    def __init__(self, descriptor: int, output: int = _STDERR) -> None:
        self.descriptor = descriptor
        self._output = select.poll()
        self._output.register(output, select.POLLOUT)
        self._wait_failed = False

    @classmethod
    def new(cls) -> LogLock:
        """Make a lock that no other process has."""
        if sys.platform == "linux":
            return cls(os.memfd_create("ferryman-log"))  # a container may have no file system to write to
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    @classmethod
    def inherited(cls, descriptor: int) -> LogLock:
        """Return the lock of the process that started this one."""
        os.set_inheritable(descriptor, False)
        return cls(descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other process writes. A process that has stopped is waited for only once."""
        is_ours = self._acquire() or (not self._wait_failed and self._wait())
        self._wait_failed = not is_ours
        try:
            yield
        finally:
            if is_ours:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def _wait(self) -> bool:
        looks = 0
        while looks < MOST_LOOKS:
            time.sleep(PAUSE_SECONDS)
            if self._acquire():
                return True
            looks += len(self._output.poll(0))
        return False

    def _acquire(self) -> bool:
        # A record lock belongs to a process. A lock of flock would belong to the open file, which all of them share.
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


class TextFormatter(logging.Formatter):
    """Formats time, level and message for people.

    verbose: True if the fields of a record follow its message
    colours: True if the level is coloured and the time is faint
    """

    def __init__(self, *, verbose: bool = False, colours: bool = False) -> None:
        super().__init__()
        self._names = FIELDS + MORE_FIELDS if verbose else ()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, with a traceback below it if there is one."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname:<7}"
        if self._colours:
            moment, level = f"\x1b[2m{moment}\x1b[0m", f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        fields = "".join(f" {name}={clean_line(str(value))}" for name, value in _fields(record, self._names).items())
        trace = _trace(self, record)
        text = f"{record.getMessage()}{fields}" + (f"\n{trace}" if trace else "")
        return f"{moment} {level} {clean_lines(without_secrets(text))}"


class JsonFormatter(logging.Formatter):
    """Formats a record as one document: time, level, logger, message, the fields, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the document on one line."""
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


class _LockingHandler(logging.StreamHandler[TextIO]):
    """Writes each record while it holds the lock."""

    def __init__(self, lock: LogLock) -> None:
        super().__init__()
        self._log_lock = lock

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        with self._log_lock.held():
            super().emit(record)


def set_up_logs(form: str, level: str, *, verbose: bool = False, lock: LogLock | None = None) -> None:
    """Send all logs of this process to stderr. lock: shared with the other processes that write there, if any"""
    handler = logging.StreamHandler() if lock is None else _LockingHandler(lock)
    text = TextFormatter(verbose=verbose, colours=has_colours())
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        logging.getLogger("psycopg").setLevel(logging.WARNING)  # the worker itself logs what matters of the rest


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
