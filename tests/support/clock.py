"""A clock in the hands of the test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class ManualClock:
    """A clock for a scheduler that stands still until the test moves it."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._moved = asyncio.Event()
        self.sleeps_until: datetime | None = None
        """The moment that the scheduler is waiting for, if it is."""

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def set(self, now: datetime) -> None:
        """Set the time, earlier or later, and wake whoever waits for it."""
        self._now = now
        self._moved.set()

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self.set(self._now + by)

    async def sleep_until(self, moment: datetime) -> None:
        """Return once the clock has been moved to this moment."""
        self.sleeps_until = moment
        try:
            while self._now < moment:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.sleeps_until = None
