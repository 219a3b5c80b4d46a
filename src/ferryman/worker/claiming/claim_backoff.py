"""Spaces out claims that notifications cause and that find nothing.

Every role that may connect to the database may announce jobs, as often as it likes, and among many workers most
notifications are about a job that another one takes. A worker that finds jobs is never held up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BURST = 40
"""How many claims in a row may find nothing before there are pauses."""
PER_SECOND = 40.0
"""How many claims per second may find nothing after that."""


class ClaimBackoff:
    """How soon the next claim may follow a notification."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._counted_at = clock()

    def claimed(self, count: int) -> None:
        """Note a claim, and how many jobs it found."""
        now = self._clock()
        earned = (now - self._counted_at) * PER_SECOND
        self._left = float(BURST) if count else min(float(BURST), self._left + earned) - 1
        self._counted_at = now

    @property
    def pause(self) -> float:
        """Seconds to wait before a notification leads to a claim; usually none."""
        return max(0.0, -self._left / PER_SECOND - (self._clock() - self._counted_at))
