"""Calls hooks in asyncio tasks of their own, so that a slow hook does not delay the work that it watches."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ferryman.hooks.hook_registry import HookRegistry
    from ferryman.hooks.kinds import Observer

T = TypeVar("T")

logger = logging.getLogger("ferryman.hooks")

OBSERVER_LIMIT = timedelta(seconds=10)
"""How long a handler may take for one event of a sweep or a crontab: as long as an interceptor."""
CLOSE_SECONDS = 2.0
MOST_EVENTS = 10_000
"""If more events than this wait for a slow handler, further ones are dropped."""


class Telling(Generic[T]):
    """A queue of items that are reported to hooks by `tell`, up to `width` at the same time.

    One task reports all items for as long as no hook makes it wait; then another task continues beside it.

    tell: reports one item; must not raise
    width: how many items are reported at the same time; with 1 they are reported in order
    """

    def __init__(self, tell: Callable[[T], Awaitable[None]], *, width: int) -> None:
        self._tell = tell
        self._width = width
        self._waiting: deque[T] = deque()
        self._tellers: set[asyncio.Task[None]] = set()
        self._all_told = asyncio.Event()
        self._all_told.set()

    @property
    def untold(self) -> int:
        """The number of items that wait or are being reported."""
        return len(self._waiting) + len(self._tellers)

    def put(self, items: Iterable[T]) -> None:
        """Queue these items, to be reported soon."""
        self._waiting.extend(items)
        if self._waiting:
            self._all_told.clear()
            self._add_teller()

    async def drain(self) -> None:
        """Wait until all items are reported."""
        await self._all_told.wait()

    def close(self) -> int:
        """Drop the items that wait, and cancel those that are being reported. Returns how many items these are."""
        left = self.untold
        self._waiting.clear()
        for teller in self._tellers:
            teller.cancel()
        return left

    def _add_teller(self) -> None:
        if not self._waiting or len(self._tellers) >= self._width:
            return
        loop = asyncio.get_running_loop()
        # Not made by the loop: with an eager task factory, hooks would be called from within `put`.
        teller = asyncio.Task(self._tell_all(), loop=loop, name="tell hooks")
        self._tellers.add(teller)
        teller.add_done_callback(self._has_ended)
        # By then it has reported everything, or waits for a hook.
        loop.call_soon(self._add_teller)

    async def _tell_all(self) -> None:
        while self._waiting:
            await self._tell(self._waiting.popleft())

    def _has_ended(self, teller: asyncio.Task[None]) -> None:
        self._tellers.discard(teller)
        if self._waiting:
            self._add_teller()
        elif not self._tellers:
            self._all_told.set()


class Teller:
    """Reports events to hooks in the background, one event after the other.

    A hook that takes longer than `within` is cancelled, and that is logged.
    """

    def __init__(self, hooks: HookRegistry, *, within: timedelta = OBSERVER_LIMIT) -> None:
        self._hooks = hooks
        self._telling: Telling[Observer] = Telling(functools.partial(hooks.emit, within=within), width=1)
        self.told = self._telling.drain

    def tell(self, *events: Observer) -> None:
        """Report these events soon. Returns at once."""
        wanted = [event for event in events if self._hooks.wants(type(event))]
        room = max(0, MOST_EVENTS - self._telling.untold)
        self._telling.put(wanted[:room])
        if len(wanted) > room:
            _log_dropped(len(wanted) - room)

    async def close(self) -> None:
        """Report the remaining events, within two seconds; drop the rest."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.told()
        except TimeoutError:
            _log_dropped(self._telling.close())


def _log_dropped(count: int) -> None:
    logger.error(
        "hooks are too slow; dropped %d events",
        count,
        extra={"event": "hook_events_dropped", "count": count},
    )
