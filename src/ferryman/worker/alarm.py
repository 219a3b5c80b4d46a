"""Wake-ups: hints that there may be something to do. Many of them are as good as one."""

from __future__ import annotations

import asyncio


class Alarm:
    """Wakes the one who waits. A ring that nobody waited for is remembered, once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake whoever waits, now or next."""
        self._rung.set()

    def clear(self) -> None:
        """Forget rings so far: what they announced is about to be looked at."""
        self._rung.clear()

    async def wait(self, seconds: float) -> bool:
        """Wait for a ring, at most so long; whether it rang."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True
