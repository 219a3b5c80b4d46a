"""Named places in a worker's life at which the crash tests end or freeze it.

A test's own program sets the faults before it starts its worker:

    sync_points.arm("after_claim:kill,handler_done:stop")

`kill` is SIGKILL, `stop` is SIGSTOP, `exit` is `os._exit`; each happens once. Nothing else arms a point, and
reaching one that is not armed costs an empty call.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXIT_CODE = 70


def arm(setting: str, history: str | None = None) -> None:
    """Let these faults happen in this process. The history is a file that gets a JSON line for each point reached."""
    global _points  # noqa: PLW0603 - points are reached from anywhere in the worker
    pairs = [entry.partition(":") for entry in setting.split(",") if entry]
    _points = SyncPoints({point: _FAULTS[fault] for point, _, fault in pairs}, history)


def reach(name: str) -> None:
    """Note that the worker is at this point. If a fault is set here, it may get no further."""
    if _points is not None:
        _points.reach(name)


class SyncPoints:
    """The faults to cause, by the name of the point."""

    def __init__(self, faults: Mapping[str, Callable[[], None]], history: str | None) -> None:
        self._faults = dict(faults)
        self._history = history

    def reach(self, name: str) -> None:
        """Note the point, then cause its fault, unless that has happened already."""
        self._note(name)
        fault = self._faults.pop(name, None)
        if fault is not None:
            fault()

    def _note(self, name: str) -> None:
        if self._history is None:
            return
        line = {"event": "reached", "at": time.monotonic_ns(), "pid": os.getpid(), "point": name}
        opened = os.open(self._history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(opened, json.dumps(line).encode() + b"\n")
        finally:
            os.close(opened)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _exit() -> None:
    os._exit(EXIT_CODE)


_FAULTS = {"kill": _kill, "stop": _stop, "exit": _exit}
_points: SyncPoints | None = None
