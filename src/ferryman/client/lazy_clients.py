"""Clients that connect at their first operation. Handlers get them, because most never use their client."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ferryman.client.asynchronous import Client
from ferryman.client.blocking import SyncClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.pools import SyncPool
    from ferryman.database.steps import Steps

R = TypeVar("R")


def same_queue(client: Client) -> dict[str, Any]:
    """Return the options for another client of the same queue, here or in a child process. `client` must be open."""
    return {
        "settings": replace(client.settings, database_url=client.address.conninfo),
        "use_local_time": client._core.use_local_time,  # noqa: SLF001 - of this package
        "max_connections": client._max_connections,  # noqa: SLF001
    }


class LazySyncClient(SyncClient):
    """A `SyncClient` for any number of threads. It connects at its first operation; once closed, it stays closed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._opening = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Close all connections. A handler that still uses the client gets an error that says so."""
        self._is_closed = True
        super().close()

    def start_anew(self) -> None:
        """Make the client usable in a process that was just forked: no thread is left that was opening it."""
        self._opening = threading.Lock()

    def _own_pool(self) -> SyncPool:
        if self._pool is None:
            with self._opening:
                if not self._is_closed:
                    self.open()
            if self._is_closed:  # meanwhile: `close` does not wait for a server that is slow to answer
                super().close()
        return super()._own_pool()


class ReopeningSyncClient(LazySyncClient):
    """A `LazySyncClient` that connects again if it is used after `close`, which any thread may call at any moment."""

    def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        SyncClient.close(self)

    def _own_pool(self) -> SyncPool:
        while (pool := self._pool) is None:
            with self._opening:
                self.open()
        return pool


class LazyClient(Client):
    """A `Client` for one event loop, which connects at its first operation."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._opening = asyncio.Lock()

    async def _perform(self, start: Callable[[], Steps[R]]) -> R:
        if self._pool is None:
            async with self._opening:
                await self.open()
        return await super()._perform(start)

    def close_now(self) -> None:
        """Close idle connections from any thread, even without an event loop; the others when they are given back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close_now()
        self._leave_server()
