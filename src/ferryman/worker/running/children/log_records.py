"""Sends log records from a child to its worker, whose handlers write them.

Each order says which levels the worker wants; other records do not leave the child. A record is sent as plain values,
with its message already formatted. A task whose module configures logging itself may remove the handler defined here;
its records then go to its own handlers.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.worker.running.children.messages import ChildLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.worker.running.children.messages import ChildNote

_PLAIN = (str, int, float, bool, type(None))
_formatter = logging.Formatter()


class LogLevels(msgspec.Struct, frozen=True):
    """The levels of a worker's loggers, so that its children send the same records.

    by_logger: the levels that were set; the root logger's name is empty
    disabled: the level up to which all records are dropped; see `logging.disable`
    """

    by_logger: Mapping[str, int]
    disabled: int

    @classmethod
    def of_this_process(cls) -> LogLevels:
        """Return the levels of this process."""
        root = logging.getLogger()
        loggers = [*root.manager.loggerDict.items()]
        levels = {name: each.level for name, each in loggers if isinstance(each, logging.Logger) and each.level}
        return cls({"": root.level, **levels}, root.manager.disable)

    def apply(self, instead_of: LogLevels | None) -> None:
        """Set these levels in this process, and reset loggers that only the levels before, `instead_of`, have named."""
        before = {} if instead_of is None else instead_of.by_logger
        for name in before.keys() - self.by_logger.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, level in self.by_logger.items():
            if before.get(name) != level:
                logging.getLogger(name).setLevel(level)
        if self.disabled != (0 if instead_of is None else instead_of.disabled):
            logging.disable(self.disabled)


class LogCarrier(logging.Handler):
    """The handler of a child's root logger: sends records to the worker."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()
        self._levels: LogLevels | None = None
        self._send: Callable[[ChildNote], None] | None = None

    def begin(self, levels: LogLevels, send: Callable[[ChildNote], None]) -> None:
        """Send the records of the next order."""
        levels.apply(instead_of=self._levels)
        self._levels = levels
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. A process that the task has forked has no worker, so it prints serious ones to stderr."""
        if os.getpid() != self._process:
            if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
                logging.lastResort.handle(record)
            return
        try:
            if self._send is not None:
                self._send(ChildLog(_plain(record)))
        except Exception:  # noqa: BLE001 - as in every handler: a message that cannot be made does not fail the task
            self.handleError(record)


def hand_on(note: ChildLog) -> None:
    """Handle a child's record in the worker, by the loggers and handlers of this process."""
    record = logging.makeLogRecord(dict(note.fields))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        with contextlib.suppress(Exception):  # a filter may raise anything, which is not the job's fault
            logger.handle(record)


def _plain(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value if type(value) in _PLAIN else _as_plain(value) for name, value in vars(record).items()}
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = _formatter.formatException(record.exc_info)
    return {**fields, "msg": record.getMessage(), "args": None, "exc_info": None}


def _as_plain(value: object) -> object:
    """Return a plain value in the place of one whose class the worker may not have."""
    try:
        return int(value) if isinstance(value, int) else str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the message
        return f"<{type(value).__qualname__}>"
