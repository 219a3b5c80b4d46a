"""The client of blocking handlers that run in threads of a worker."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

from ferryman.client.lazy_clients import LazySyncClient, same_queue
from ferryman.hooks import HookRegistry

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ferryman.client import Client
    from ferryman.hooks.hook_registry import Event
    from ferryman.hooks.kinds import Interceptor, Observer

E = TypeVar("E")
R = TypeVar("R")


def blocking_client(client: Client, hooks: HookRegistry) -> LazySyncClient:
    """A blocking client for the same queue, which connects when a handler first uses it.

    client: the worker's own, which is open
    """
    return LazySyncClient(**same_queue(client), tasks=client._core.tasks, hooks=HooksOnLoop(hooks))  # noqa: SLF001 - as of the same queue


class HooksOnLoop(HookRegistry):
    """A worker's hooks, for threads: they are called on the worker's event loop, where async ones can be awaited."""

    def __init__(self, hooks: HookRegistry) -> None:
        super().__init__()
        self._on_loop = hooks
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def wants(self, event: type[Event]) -> bool:
        """True if a handler is registered for this event."""
        return self._on_loop.wants(event)

    def emit_blocking(self, event: Observer) -> None:
        """Report an event, and wait until all handlers have returned."""
        if threading.get_ident() == self._thread:
            self._on_loop.emit_blocking(event)
        else:
            self._wait_for(self._on_loop.emit(event))

    def intercept_blocking(self, event: Interceptor[E, R]) -> R:
        """Ask the handlers, and wait for their answer."""
        if threading.get_ident() == self._thread:
            return self._on_loop.intercept_blocking(event)
        return self._wait_for(self._on_loop.intercept(event))

    def _wait_for(self, asked: Coroutine[None, None, R]) -> R:
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        except RuntimeError:  # the loop is closed: the worker has ended, and its handler has not
            asked.close()
            raise
