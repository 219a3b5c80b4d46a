"""One line at the bottom of a terminal that says how it goes."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.cli.worker.vitals import Vitals

CLEAR_LINE = "\r\x1b[2K"
WINDOW = 10
"""How many looks the rate is taken over."""


class StatusLine:
    """Draws over itself. Other output clears it first, and it comes back with the next look."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._looks: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def draw(self, everyone: Iterable[Vitals]) -> None:
        """Show what is known now."""
        width = shutil.get_terminal_size().columns - 1
        self._show(self.text(everyone, time.monotonic())[:width])

    def clear(self) -> None:
        """Leave the terminal as it was."""
        self._show("")

    def text(self, everyone: Iterable[Vitals], now: float) -> str:
        """The line itself."""
        counts = [vitals.counts for vitals in everyone]
        done, failed = sum(each.done for each in counts), sum(each.failed for each in counts)
        running = sum(each.running for each in counts)
        return f"{running:,} running  {done:,} done  {failed:,} failed  {self._rate(now, done + failed):,.0f}/s"

    def _show(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed; the worker goes on, or is told to stop
            self._terminal.write(CLEAR_LINE + text)
            self._terminal.flush()

    def _rate(self, now: float, ended: int) -> float:
        self._looks.append((now, ended))
        first_at, first = self._looks[0]
        # A process that was replaced counts from zero again.
        return max(0, ended - first) / (now - first_at) if now > first_at else 0.0


class AboveStatusLine:
    """A stream of the terminal that takes the status line away before each line of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_at_start = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, above the status line."""
        if not text:
            return self._stream.write(text)  # click finds out by an empty write whether a stream takes bytes
        before, self._is_at_start = CLEAR_LINE if self._is_at_start else "", text.endswith("\n")
        self._stream.write(before + text)
        return len(text)


def make_room() -> None:
    """Let whatever this process prints or logs go above the status line."""
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = cast("TextIO", AboveStatusLine(sys.stdout))
    sys.stderr = cast("TextIO", AboveStatusLine(sys.stderr))
