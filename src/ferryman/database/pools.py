"""Pools of Ferryman's own connections, async and blocking, which replace dead connections and detect poolers.

A caller that finds no idle connection opens one. A failure reaches it at once, in the server's words, and it decides
when to retry. A pool that reconnects in the background could only report that time is up, and after a long outage it
might be asleep when the server is back.

`AsyncPool` and `SyncPool` behave alike; `tests/client/test_pools.py` runs the same tests on both.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.connecting import ConnectPatience, configure, configure_async, connect, unreachable
from ferryman.database.connections import OwnAsyncConnection, OwnConnection
from ferryman.database.identifiers import SchemaName
from ferryman.database.idle_connections import IdleConnections
from ferryman.database.statements import Style, load_statement
from ferryman.errors import NotConnectedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman.database.addresses import Address

CONNECT_TIMEOUT_SECONDS = 10
TIMES_LONGER = 3
"""How much longer a login may take on a slow network."""
SECONDS_FOR_A_TURN = 30.0
"""How long to wait for a connection when all are in use."""
SECONDS_FOR_PROOF = 5.0
"""How long a connection that was idle for long may take to show that it still works."""
_OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS, "client_encoding": "utf8"}
_BACKEND_PID = load_statement(__package__, "backend_pid").text(SchemaName("public"), Style.NUMBERED)


class AsyncPool:
    """At most `size` connections, each opened when it is needed and kept for the next caller."""

    def __init__(self, address: Address, *, size: int) -> None:
        self._address = address
        self._size = size
        self.process = os.getpid()
        """The process that owns these connections and turns."""
        self._turns = asyncio.Semaphore(size)
        self._idle: IdleConnections[OwnAsyncConnection] = IdleConnections()
        self._is_closed = False
        self._patience = new_patience()
        self.is_behind_pooler = False
        """True if the newest connection led to a pooler."""
        _pools.add(self)

    async def getconn(self) -> OwnAsyncConnection:
        """Take a connection, to be given back with `putconn`. `NotConnectedError` says why there is none."""
        _start_anew_if_forked(self)
        if self._turns.locked():
            await self._wait_for_a_turn()
        else:
            await self._turns.acquire()
        try:
            return await self._idle_one() or self._idle.meet(await self._connect())
        except BaseException:
            self._turns.release()
            raise

    async def putconn(self, connection: OwnAsyncConnection) -> None:
        """Give a connection back, in any state."""
        self._turns.release()
        for unused in [connection] if self._is_closed else self._idle.put(connection):
            await unused.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[OwnAsyncConnection]:
        """Lend a connection for the duration of a block."""
        connection = await self.getconn()
        try:
            yield connection
        finally:
            await self.putconn(connection)

    async def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        _start_anew_if_forked(self)
        self._is_closed = True
        for connection in self._idle.empty():
            await connection.close()

    def close_now(self) -> None:
        """Close idle connections without an event loop, from any thread; the others when they are given back."""
        _start_anew_if_forked(self)
        self._is_closed = True
        for connection in self._idle.empty():
            connection.pgconn.finish()

    def start_anew(self) -> None:
        """Make the pool usable in a process that was just forked: the open connections are the parent's."""
        self.process = os.getpid()
        self._turns = asyncio.Semaphore(self._size)
        self._idle.cut()

    async def _idle_one(self) -> OwnAsyncConnection | None:
        while (found := self._idle.take()) is not None:
            connection, is_doubtful = found
            if not is_doubtful or await self._answers(connection):
                return connection
            connection.pgconn.finish()
        return None

    async def _answers(self, connection: OwnAsyncConnection) -> bool:
        try:
            async with asyncio.timeout(SECONDS_FOR_PROOF):
                await connection.fetch(_BACKEND_PID)
        except (psycopg.Error, TimeoutError):
            return False
        except BaseException:
            connection.pgconn.finish()  # no other code can close it
            raise
        return True

    async def _wait_for_a_turn(self) -> None:
        try:
            async with asyncio.timeout(SECONDS_FOR_A_TURN):
                await self._turns.acquire()
        except TimeoutError:
            raise _busy(self._size) from None

    async def _connect(self) -> OwnAsyncConnection:
        begun, options = time.monotonic(), {**_OPTIONS, "connect_timeout": self._patience.seconds}
        try:
            connection = await connect(OwnAsyncConnection, self._address.conninfo, **options)
        except psycopg.Error as error:
            self._patience.failed(error)
            raise unreachable(self._address, error) from None
        self._patience.took(time.monotonic() - begun)
        try:
            # A connection may fall silent right after its login.
            async with asyncio.timeout(self._patience.seconds):
                await configure_async(connection)
        except BaseException as error:
            connection.pgconn.finish()
            if isinstance(error, (psycopg.Error, TimeoutError)):
                raise unreachable(self._address, error) from None
            raise
        self.is_behind_pooler = connection.is_pooled
        return connection


class SyncPool:
    """A pool like `AsyncPool` for blocking code, in any number of threads."""

    def __init__(self, address: Address, *, size: int) -> None:
        self._address = address
        self._size = size
        self.process = os.getpid()
        self._turns = threading.Semaphore(size)
        self._idle: IdleConnections[OwnConnection] = IdleConnections()
        self._lock = threading.Lock()
        self._is_closed = False
        self._patience = new_patience()
        _pools.add(self)

    def getconn(self) -> OwnConnection:
        """Take a connection, to be given back with `putconn`. `NotConnectedError` says why there is none."""
        _start_anew_if_forked(self)
        if not self._turns.acquire(timeout=SECONDS_FOR_A_TURN):
            raise _busy(self._size)
        try:
            return self._idle_one() or self._idle.meet(self._connect())
        except BaseException:
            self._turns.release()
            raise

    def putconn(self, connection: OwnConnection) -> None:
        """Give a connection back, in any state."""
        with self._lock:
            unused = [connection] if self._is_closed else self._idle.put(connection)
        self._turns.release()
        for each in unused:
            each.close()

    def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        _start_anew_if_forked(self)
        with self._lock:
            self._is_closed = True
            idle = self._idle.empty()
        for connection in idle:
            connection.close()

    def start_anew(self) -> None:
        """Make the pool usable in a process that was just forked: the open connections are the parent's."""
        self.process = os.getpid()
        self._turns, self._lock = threading.Semaphore(self._size), threading.Lock()
        self._idle.cut()

    def _idle_one(self) -> OwnConnection | None:
        while True:
            with self._lock:
                found = self._idle.take()
            if found is None:
                return None
            connection, is_doubtful = found
            if not is_doubtful or self._answers(connection):
                return connection
            connection.pgconn.finish()

    def _answers(self, connection: OwnConnection) -> bool:
        try:
            with connection.answering_within(SECONDS_FOR_PROOF):
                connection.fetch(_BACKEND_PID)
        except psycopg.Error:
            return False
        except BaseException:
            connection.pgconn.finish()  # no other code can close it
            raise
        return True

    def _connect(self) -> OwnConnection:
        begun, options = time.monotonic(), {**_OPTIONS, "connect_timeout": self._patience.seconds}
        try:
            connection = OwnConnection.connect(self._address.conninfo, **options)
        except psycopg.Error as error:
            self._patience.failed(error)
            raise unreachable(self._address, error) from None
        self._patience.took(time.monotonic() - begun)
        try:
            # A connection may fall silent right after its login.
            with connection.answering_within(self._patience.seconds):
                configure(connection)
        except BaseException as error:
            connection.pgconn.finish()
            if isinstance(error, psycopg.Error):
                raise unreachable(self._address, error) from None
            raise
        return connection


_pools: weakref.WeakSet[AsyncPool | SyncPool] = weakref.WeakSet()
"""Every pool of this process."""


def _start_anew_if_forked(pool: AsyncPool | SyncPool) -> None:
    """Reset the pool if this process was forked without Python's fork hooks, as uWSGI does."""
    if pool.process != os.getpid():
        pool.start_anew()


def _was_forked() -> None:
    for pool in [*_pools]:
        with suppress(OSError):  # without a free file number, one pool keeps its sockets; the others need not
            pool.start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)


async def open_async_pool(address: Address, *, size: int) -> AsyncPool:
    """Make a pool, and connect once to check that the server answers. `NotConnectedError` says why it does not."""
    pool = AsyncPool(address, size=size)
    await pool.putconn(await pool.getconn())
    return pool


def open_sync_pool(address: Address, *, size: int) -> SyncPool:
    """Make a pool for blocking code; otherwise like `open_async_pool`."""
    pool = SyncPool(address, size=size)
    pool.putconn(pool.getconn())
    return pool


def new_patience() -> ConnectPatience:
    """Return the time limit of new connections, except those of heartbeats."""
    seconds = _OPTIONS["connect_timeout"]
    return ConnectPatience(seconds, TIMES_LONGER * seconds)


def _busy(size: int) -> NotConnectedError:
    return NotConnectedError(
        f"no connection became free within {SECONDS_FOR_A_TURN:g} s: all {size} are in use. Nothing was sent. Raise "
        f"max_connections, or run fewer operations at once."
    )
