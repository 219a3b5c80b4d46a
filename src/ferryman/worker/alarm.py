"""Wake-ups: hints that there may be something to do. Several that come before the next look count as one."""

from __future__ import annotations

import asyncio


class Alarm:
    """Wakes the part that waits. If none waits, the next one to wait is woken at once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the part that waits, or that waits next."""
        self._rung.set()

    def clear(self) -> None:
        """Drop pending wake-ups. Call it just before looking for jobs."""
        self._rung.clear()

    async def wait(self, seconds: float) -> bool:
        """Wait for a wake-up, at most for these seconds. True if one came."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True
