"""Where the scheduler gets its time from, and how it waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
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


class ManualClock:
    """A clock that stands still until it is moved; for tests."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._moved = asyncio.Event()
        self.sleeps_until: datetime | None = None
        """What somebody is waiting for right now."""

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def set(self, now: datetime) -> None:
        """Make it this time, earlier or later, and wake those whose moment has come."""
        self._now = now
        self._moved.set()

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self.set(self._now + by)

    async def sleep_until(self, moment: datetime) -> None:
        """Come back when the clock was moved that far."""
        self.sleeps_until = moment
        try:
            while self._now < moment:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.sleeps_until = None
