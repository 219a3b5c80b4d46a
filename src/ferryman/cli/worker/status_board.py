"""Shows the state of the workers: to systemd, and on one line at the bottom of a terminal."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from ferryman.cli.worker.vitals import liveness, readiness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.cli.worker.vitals import Vitals

CLEAR_LINE = "\r\x1b[2K"
WINDOW = 10
"""The number of refreshes over which the rate is computed."""


class StatusBoard:
    """Shows the state of the workers to systemd and on the terminal, at each change and twice a second."""

    def __init__(self, everyone: Sequence[Vitals], status_line: StatusLine | None, *, patience: float) -> None:
        self.everyone = everyone
        self._patience = patience
        self._status_line = status_line
        self._announced_ready = self._announced_stop = False

    def refresh(self) -> None:
        """Notify systemd of a change, and draw the status line."""
        if not self._announced_ready and readiness(self.everyone, self._patience).is_good:
            self._announced_ready = True
            notify("READY=1")
        if "WATCHDOG_USEC" in os.environ and liveness(self.everyone, self._patience).is_good:
            notify("WATCHDOG=1")
        if self._status_line is not None:
            self._status_line.draw(self.everyone)

    def announce_stop(self) -> None:
        """Notify systemd that the whole service stops.

        Only the process that decides to stop calls this. A single worker process that stops is replaced, but systemd
        would kill the service.
        """
        if not self._announced_stop:
            self._announced_stop = True
            notify("STOPPING=1")

    def clear(self) -> None:
        """Remove the status line from the terminal."""
        if self._status_line is not None:
            self._status_line.clear()


def notify(state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to the service manager, as sd_notify does. Does nothing if none listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        channel.send(state.encode())


class StatusLine:
    """A line that counts jobs and draws over itself. Other output clears it first; the next refresh draws it again."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._samples: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def draw(self, everyone: Iterable[Vitals]) -> None:
        """Draw the line as it is now."""
        width = shutil.get_terminal_size().columns - 1
        self._write(self.text(everyone, time.monotonic())[:width])

    def clear(self) -> None:
        """Leave the terminal as it was."""
        self._write("")

    def text(self, everyone: Iterable[Vitals], now: float) -> str:
        """Return the line itself."""
        counts = [vitals.counts for vitals in everyone]
        done, failed = sum(each.done for each in counts), sum(each.failed for each in counts)
        running = sum(each.running for each in counts)
        return f"{running:,} running  {done:,} done  {failed:,} failed  {self._rate(now, done + failed):,.0f}/s"

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed; the worker continues until it gets SIGHUP
            self._terminal.write(CLEAR_LINE + text)
            self._terminal.flush()

    def _rate(self, now: float, ended: int) -> float:
        self._samples.append((now, ended))
        first_at, first = self._samples[0]
        # A replaced process counts from zero again.
        return max(0, ended - first) / (now - first_at) if now > first_at else 0.0


class AboveStatusLine:
    """A stream of the terminal that clears the status line before each line of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_at_start = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write above the status line."""
        if not text:
            return self._stream.write(text)  # click finds out by an empty write whether a stream takes bytes
        before, self._is_at_start = CLEAR_LINE if self._is_at_start else "", text.endswith("\n")
        self._stream.write(before + text)
        return len(text)


def write_above_status_line() -> None:
    """Make everything that this process prints or logs appear above the status line."""
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = cast("TextIO", AboveStatusLine(sys.stdout))
    sys.stderr = cast("TextIO", AboveStatusLine(sys.stderr))
