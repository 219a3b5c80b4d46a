"""Telling observers in a task of its own: what was told of is written, and nobody waits for a slow handler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman.hooks.kinds import Observer
    from ferryman.hooks.registry import HookRegistry

logger = logging.getLogger("ferryman.hooks")

OBSERVER_LIMIT = timedelta(seconds=10)
"""How long a handler may take for one event, as long as one that decides."""
SECONDS_TO_CLOSE = 2.0
MOST_EVENTS = 10_000
"""Beyond this many events that wait for a slow handler, the oldest are dropped."""


class Teller:
    """Tells handlers of events, one event after the other. A handler that exceeds the limit is cancelled and named."""

    def __init__(self, hooks: HookRegistry, *, within: timedelta = OBSERVER_LIMIT) -> None:
        self._hooks = hooks
        self._within = within
        self._events: deque[Observer] = deque()
        self._task: asyncio.Task[None] | None = None

    def tell(self, *events: Observer) -> None:
        """Tell of these events soon. Comes back at once."""
        self._events.extend(event for event in events if self._hooks.wants(type(event)))
        self._drop_oldest()
        if self._events and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._tell_all(), name="tell hooks")

    async def told(self) -> None:
        """Wait until everything was told of."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Tell of the rest, if that can be done soon."""
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=SECONDS_TO_CLOSE)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _tell_all(self) -> None:
        while self._events:
            await self._hooks.emit(self._events.popleft(), within=self._within)

    def _drop_oldest(self) -> None:
        too_many = len(self._events) - MOST_EVENTS
        if too_many <= 0:
            return
        for _ in range(too_many):
            self._events.popleft()
        logger.error(
            "hooks are too slow: %d events were dropped",
            too_many,
            extra={"event": "hook_events_dropped", "count": too_many},
        )
