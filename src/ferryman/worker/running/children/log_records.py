"""Carries log records from a child to its worker, which has the handlers.

The worker tells with each order which levels are wanted; nothing else leaves the child. Records are plain values by
then: what they say was worked out in the child. A task whose module configures logging by itself replaces our handler,
and its records go where it wants them.
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
    """Which records a worker wants.

    by_logger: the levels that were set; the root logger's name is empty
    disabled: the level up to which everything is off, whatever loggers say; see `logging.disable`
    """

    by_logger: Mapping[str, int]
    disabled: int

    @classmethod
    def of_this_process(cls) -> LogLevels:
        """What is wanted here."""
        root = logging.getLogger()
        loggers = [*root.manager.loggerDict.items()]
        levels = {name: each.level for name, each in loggers if isinstance(each, logging.Logger) and each.level}
        return cls({"": root.level, **levels}, root.manager.disable)

    def hold(self, instead_of: LogLevels | None) -> None:
        """Let them hold in this process, and those that held before no longer."""
        before = {} if instead_of is None else instead_of.by_logger
        for name in before.keys() - self.by_logger.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, level in self.by_logger.items():
            if before.get(name) != level:
                logging.getLogger(name).setLevel(level)
        if self.disabled != (0 if instead_of is None else instead_of.disabled):
            logging.disable(self.disabled)


class LogCarrier(logging.Handler):
    """The handler of a child's root logger."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()
        self._levels: LogLevels | None = None
        self._tell: Callable[[ChildNote], None] | None = None

    def begin(self, levels: LogLevels, tell: Callable[[ChildNote], None]) -> None:
        """Carry the records of one order."""
        levels.hold(instead_of=self._levels)
        self._levels = levels
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record. A process that the task has forked has no worker to send it to."""
        if os.getpid() != self._process:
            if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
                logging.lastResort.handle(record)
            return
        try:
            if self._tell is not None:
                self._tell(ChildLog(_plain(record)))
        except Exception:  # noqa: BLE001 - as every handler does: a message that cannot be made hurts nobody
            self.handleError(record)


def hand_on(note: ChildLog) -> None:
    """In the worker: give a record to whoever wants it here."""
    record = logging.makeLogRecord(dict(note.fields))
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        with contextlib.suppress(Exception):  # a filter may raise anything, which is no fault of the job
            logger.handle(record)


def _plain(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value if type(value) in _PLAIN else _as_plain(value) for name, value in vars(record).items()}
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = _formatter.formatException(record.exc_info)
    return {**fields, "msg": record.getMessage(), "args": None, "exc_info": None}


def _as_plain(value: object) -> object:
    """What a worker can make of a value whose class it may not have."""
    try:
        return int(value) if isinstance(value, int) else str(value)
    except Exception:  # noqa: BLE001 - a broken __str__ must not cost the message
        return f"<{type(value).__qualname__}>"
