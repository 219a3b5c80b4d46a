"""The record that goes with a worker's heartbeat: what the worker is doing. Made on the heartbeat thread."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from ferryman.worker.running.slots import Slots


class Tally(msgspec.Struct):
    """Attempts whose end was written since the worker started."""

    written: int = 0
    """All attempts whose end was written."""
    failed: int = 0
    returned: int = 0
    """Attempts that did not count, such as interrupted ones."""

    @property
    def done(self) -> int:
        """Attempts that succeeded."""
        return self.written - self.failed - self.returned


class LoopLag:
    """How long the event loop takes to answer. Each reading asks it again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._clock = clock
        self._asked_at: float | None = None
        self._last: float | None = None

    def seconds(self) -> float | None:
        """The seconds of the last answer, or how long there has been none; None before the first."""
        now = self._clock()
        if self._asked_at is not None:
            return now - self._asked_at
        self._asked_at = now
        with suppress(RuntimeError):  # the loop is closed, and the worker at its end
            self._loop.call_soon_threadsafe(self._answer, now)
        return self._last

    def _answer(self, asked_at: float) -> None:
        self._last = self._clock() - asked_at
        self._asked_at = None


class StateRecord:
    """The figures of one worker.

    tally: counts the jobs that have ended
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: Slots, tally: Tally) -> None:
        self._slots = slots
        self._tally = tally
        self._lag = LoopLag(loop)

    def take(self) -> Mapping[str, Any]:
        """The current figures, as `_ferryman_worker_states.sql` stores them."""
        return {
            "slots": self._slots.concurrency,
            "running": len(self._slots),
            "done": self._tally.done,
            "failed": self._tally.failed,
            "rss_bytes": rss_bytes(),
            "loop_lag_seconds": self._lag.seconds(),
        }


def rss_bytes() -> int | None:
    """The memory that this process has; None where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
