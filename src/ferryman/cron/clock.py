"""Where the scheduler gets its time from, and how it waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

LONGEST_NAP_SECONDS = 15.0
"""A machine that was suspended, or whose clock was set, is noticed within this time."""


class Clock(Protocol):
    """Tells the time and waits for it."""

    def now(self) -> datetime:
        """The time, with a zone."""

    async def sleep_until(self, moment: datetime) -> None:
        """Come back at this moment, or somewhat before when the clock was set."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """Come back at this moment, but never later than it seemed at first: the clock may be set back meanwhile."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + (moment - self.now()).total_seconds()
        while (left := min((moment - self.now()).total_seconds(), latest - loop.time())) > 0:  # noqa: ASYNC110 - clocks announce nothing
            await asyncio.sleep(min(left, LONGEST_NAP_SECONDS))
