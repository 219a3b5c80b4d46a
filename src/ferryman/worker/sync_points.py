"""Named places in a worker's life at which the crash tests end or freeze it.

FERRYMAN_SYNC_POINTS, looked at once when this module is imported, says what shall happen where:

    FERRYMAN_SYNC_POINTS="after_claim:kill,handler_done:stop"

`kill` is SIGKILL, `stop` is SIGSTOP, `exit` is `os._exit`; each happens once. Without the variable nothing happens, and
reaching a point costs an empty call.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SETTING = "FERRYMAN_SYNC_POINTS"
HISTORY = "FERRYMAN_SYNC_HISTORY"
"""Names a file that gets a JSON line for each point reached."""
EXIT_CODE = 70


def reach(name: str) -> None:
    """Tell that the worker is at this point; it may never get further."""
    if _points is not None:
        _points.reach(name)


class SyncPoints:
    """What shall happen at which point."""

    def __init__(self, faults: Mapping[str, Callable[[], None]], history: str | None) -> None:
        self._faults = dict(faults)
        self._history = history

    @classmethod
    def told_by(cls, environ: Mapping[str, str]) -> SyncPoints | None:
        """The points that the environment asks for, or None."""
        setting = environ.get(SETTING)
        if setting is None:
            return None
        pairs = [entry.partition(":") for entry in setting.split(",") if entry]
        return cls({point: _FAULTS[fault] for point, _, fault in pairs}, environ.get(HISTORY))

    def reach(self, name: str) -> None:
        """Note it, then do what shall happen here, unless that has happened."""
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
_points = SyncPoints.told_by(os.environ)
