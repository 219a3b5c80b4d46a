"""One line at the bottom of a terminal that says how it goes."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from ferryman.cli.worker.logs import CLEAR_LINE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.cli.worker.vitals import Vitals

WINDOW = 10
"""How many looks the rate is taken over."""


class StatusLine:
    """Draws over itself. Log lines clear it first, and it comes back with the next look."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def draw(self, everyone: Iterable[Vitals]) -> None:
        """Show what is known now."""
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"{CLEAR_LINE}{self.text(everyone, time.monotonic())[:width]}")
        sys.stderr.flush()

    def text(self, everyone: Iterable[Vitals], now: float) -> str:
        """The line itself."""
        counts = [vitals.counts for vitals in everyone]
        done, failed = sum(each.done for each in counts), sum(each.failed for each in counts)
        running = sum(each.running for each in counts)
        return f"{running:,} running  {done:,} done  {failed:,} failed  {self._rate(now, done + failed):,.0f}/s"

    def clear(self) -> None:
        """Leave the terminal as it was."""
        sys.stderr.write(CLEAR_LINE)
        sys.stderr.flush()

    def _rate(self, now: float, ended: int) -> float:
        self._looks.append((now, ended))
        (first_at, first), seconds = self._looks[0], now - self._looks[0][0]
        return max(0, ended - first) / seconds if first_at != now else 0.0
