"""The clock of the scheduler: how it reads the time, and how it waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

LONGEST_NAP_SECONDS = 15.0
"""A suspended machine, or a clock that was set, is noticed within this time."""


class Clock(Protocol):
    """A clock that can be read and waited for."""

    def now(self) -> datetime:
        """The time, with a time zone."""

    async def sleep_until(self, moment: datetime) -> None:
        """Return at this moment, or somewhat earlier if the clock was set."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """Return at this moment. If the clock is set back meanwhile, wait no longer than it seemed at the call."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + (moment - self.now()).total_seconds()
        while (left := min((moment - self.now()).total_seconds(), latest - loop.time())) > 0:  # noqa: ASYNC110 - clocks announce nothing
            await asyncio.sleep(min(left, LONGEST_NAP_SECONDS))
