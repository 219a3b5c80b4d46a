"""Connections of our own: pools that notice dead connections and poolers in between.

Whoever needs a connection when none is idle opens it himself. So he hears at once, and in the server's own words, why
that did not work, and whoever tries again decides when. A pool that reconnects in the background would answer only that
time is up, and after a long outage might be asleep when the server is back.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import threading
import time
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg

from ferryman.database.connecting import ConnectPatience, connect
from ferryman.database.connections import BEGIN_POOLED, OwnAsyncConnection, OwnConnection
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style, load_statement
from ferryman.errors import NotConnectedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman.database.addresses import Address

C = TypeVar("C", OwnAsyncConnection, OwnConnection)

CONNECT_TIMEOUT_SECONDS = 10
TIMES_LONGER = 3
"""What a new connection may take on a slow network, compared with the usual."""
SECONDS_FOR_A_TURN = 30.0
"""How long to wait for a connection when all that there may be are in use."""
SECONDS_IDLE = 10.0
"""After so long without use a connection is closed, unless it is the last: hundreds of idle workers add up."""
SECONDS_OF_LIFE = 3600.0
"""A server's memory for one connection grows with what was ever done there."""
SECONDS_UNASKED = 60.0
"""One that was idle for longer is asked before it is used: what lies between forgets silent connections."""
SECONDS_FOR_PROOF = 5.0
_OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS, "client_encoding": "utf8"}
_NO_SCHEMA = SchemaName("public")
_BACKEND_PID = load_statement(__package__, "backend_pid").text(_NO_SCHEMA, Style.NUMBERED)
_DEFAULT_ISOLATION = load_statement(__package__, "default_isolation").text(_NO_SCHEMA, Style.NUMBERED)
_STEADY_PLANS = load_statement(__package__, "steady_plans").text(_NO_SCHEMA, Style.NUMBERED)


class _Idle(Generic[C]):
    """Connections that nobody uses. The one that was used last is given out first, so that the others grow old."""

    def __init__(self) -> None:
        self._connections: list[tuple[float, C]] = []
        self._may_write = False

    def meet(self, connection: C) -> C:
        """Note a new connection. If it may write, those that may not lead to what the server was before."""
        self._may_write = self._may_write or not connection.is_read_only
        return connection

    def take(self) -> tuple[C, bool] | None:
        """A connection that seems to work, and whether it must be asked first; the others are forgotten."""
        while self._connections:
            try:
                since, connection = self._connections.pop()
            except IndexError:  # another thread was faster
                return None
            if not self._is_outdated(connection) and not _was_cut(connection):
                return connection, time.monotonic() - since >= SECONDS_UNASKED
            connection.pgconn.finish()
        return None

    def put(self, connection: C) -> list[C]:
        """Keep a connection; those that are to be closed come back."""
        now = time.monotonic()
        is_fit = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if not is_fit or now - connection.opened_at > SECONDS_OF_LIFE or self._is_outdated(connection):
            return [connection]
        self._connections.append((now, connection))
        return self._expired(now)

    def empty(self) -> list[C]:
        """All connections; none is kept."""
        connections, self._connections = self._connections, []
        return [connection for _, connection in connections]

    def cut(self) -> None:
        """Forget all connections without a word to the server: another process talks over the same sockets."""
        for connection in self.empty():
            nothing = os.open(os.devnull, os.O_RDWR)
            with suppress(psycopg.Error):  # it has no socket any more
                os.dup2(nothing, connection.pgconn.socket, inheritable=False)
            os.close(nothing)
            connection.pgconn.finish()

    def _is_outdated(self, connection: C) -> bool:
        return self._may_write and connection.is_read_only

    def _expired(self, now: float) -> list[C]:
        if self._connections[0][0] > now - SECONDS_IDLE or len(self._connections) == 1:
            return []
        return [self._connections.pop(0)[1]]


class AsyncPool:
    """Up to so many connections, each opened when it is needed and kept for the next one who asks."""

    def __init__(self, address: Address, *, size: int) -> None:
        self._address = address
        self._size = size
        self.process = os.getpid()
        """Whose connections and turns these are."""
        self._turns = asyncio.Semaphore(size)
        self._idle: _Idle[OwnAsyncConnection] = _Idle()
        self._is_closed = False
        self._patience = new_patience()
        self.is_behind_pooler = False
        """True if the newest connection led to a pooler."""
        _pools.add(self)

    async def getconn(self) -> OwnAsyncConnection:
        """A connection, to be given back with `putconn`; `NotConnectedError` says why there is none."""
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
        """Give a connection back, whatever state it is in."""
        self._turns.release()
        for unused in [connection] if self._is_closed else self._idle.put(connection):
            await unused.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[OwnAsyncConnection]:
        """A connection for as long as the block lasts."""
        connection = await self.getconn()
        try:
            yield connection
        finally:
            await self.putconn(connection)

    async def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        _start_anew_if_forked(self)
        self._is_closed = True
        for connection in self._idle.empty():
            await connection.close()

    def close_now(self) -> None:
        """Do the same as `close` without an event loop: what is idle waits for nothing."""
        _start_anew_if_forked(self)
        self._is_closed = True
        for connection in self._idle.empty():
            connection.pgconn.finish()

    def start_anew(self) -> None:
        """Be a pool of this process, which was forked: connections, and turns that were taken, are the parent's."""
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
            connection.pgconn.finish()  # nobody else knows of it
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
            raise _unreachable(self._address, error) from None
        self._patience.took(time.monotonic() - begun)
        try:
            # A connection may fall silent right after its login.
            async with asyncio.timeout(self._patience.seconds):
                await _configure_async(connection)
        except BaseException as error:
            connection.pgconn.finish()
            if isinstance(error, (psycopg.Error, TimeoutError)):
                raise _unreachable(self._address, error) from None
            raise
        self.is_behind_pooler = connection.is_pooled
        return connection


class SyncPool:
    """The blocking twin of `AsyncPool`, for any number of threads."""

    def __init__(self, address: Address, *, size: int) -> None:
        self._address = address
        self._size = size
        self.process = os.getpid()
        self._turns = threading.Semaphore(size)
        self._idle: _Idle[OwnConnection] = _Idle()
        self._lock = threading.Lock()
        self._is_closed = False
        self._patience = new_patience()
        _pools.add(self)

    def getconn(self) -> OwnConnection:
        """A connection, to be given back with `putconn`; `NotConnectedError` says why there is none."""
        _start_anew_if_forked(self)
        if not self._turns.acquire(timeout=SECONDS_FOR_A_TURN):
            raise _busy(self._size)
        try:
            return self._idle_one() or self._idle.meet(self._connect())
        except BaseException:
            self._turns.release()
            raise

    def putconn(self, connection: OwnConnection) -> None:
        """Give a connection back, whatever state it is in."""
        with self._lock:
            unused = [connection] if self._is_closed else self._idle.put(connection)
        self._turns.release()
        for each in unused:
            each.close()

    def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        _start_anew_if_forked(self)
        with self._lock:
            self._is_closed = True
            idle = self._idle.empty()
        for connection in idle:
            connection.close()

    def start_anew(self) -> None:
        """Be a pool of this process, which was forked: connections, and turns that were taken, are the parent's."""
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
        return True

    def _connect(self) -> OwnConnection:
        begun, options = time.monotonic(), {**_OPTIONS, "connect_timeout": self._patience.seconds}
        try:
            connection = OwnConnection.connect(self._address.conninfo, **options)
        except psycopg.Error as error:
            self._patience.failed(error)
            raise _unreachable(self._address, error) from None
        self._patience.took(time.monotonic() - begun)
        try:
            # A connection may fall silent right after its login.
            with connection.answering_within(self._patience.seconds):
                configure(connection)
        except BaseException as error:
            connection.pgconn.finish()
            if isinstance(error, psycopg.Error):
                raise _unreachable(self._address, error) from None
            raise
        return connection


_pools: weakref.WeakSet[AsyncPool | SyncPool] = weakref.WeakSet()
"""All pools of this process."""


def _start_anew_if_forked(pool: AsyncPool | SyncPool) -> None:
    """For a process that was forked below Python, as by uWSGI: no hook ran there."""
    if pool.process != os.getpid():
        pool.start_anew()


def _was_forked() -> None:
    for pool in [*_pools]:
        with suppress(OSError):  # without a free file number, one pool keeps its sockets; the others need not
            pool.start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)


async def open_async_pool(address: Address, *, size: int) -> AsyncPool:
    """A pool that has reached the server once; `NotConnectedError` says why it could not."""
    pool = AsyncPool(address, size=size)
    await pool.putconn(await pool.getconn())
    return pool


def open_sync_pool(address: Address, *, size: int) -> SyncPool:
    """The blocking twin of `open_async_pool`."""
    pool = SyncPool(address, size=size)
    pool.putconn(pool.getconn())
    return pool


def new_patience() -> ConnectPatience:
    """How long connections may take that are not those of heartbeats."""
    seconds = _OPTIONS["connect_timeout"]
    return ConnectPatience(seconds, TIMES_LONGER * seconds)


_WRONG_PASSWORD = ("password authentication failed", "no password supplied", "SASL authentication failed")
"""What servers, poolers and libpq say; a login that fails carries no code."""
_LIBPQ_S_ADVICE = re.compile(r"\n\tIs the server running [^\n]*\?")
"""What libpq asks below each failure. Our own advice says it once."""


def _unreachable(address: Address, error: Exception) -> NotConnectedError:
    # The cause is told, not chained: libpq's exceptions may carry the whole connection string.
    why = " ".join(_LIBPQ_S_ADVICE.sub("", str(error)).split()).rstrip(".") or "it did not answer in time"
    if any(words in why for words in _WRONG_PASSWORD):
        what_to_do = "The server answered, so its address is right: check the user name and the password"
    elif "FATAL:" in why:
        what_to_do = "The server answered, so its address is right, and it refuses this login"
    else:
        what_to_do = (
            "Check that PostgreSQL runs there and that the address is right, "
            "or start a local one with: ferryman postgres"
        )
    return NotConnectedError(f"could not connect to {address}: {why}. {what_to_do}")


def _busy(size: int) -> NotConnectedError:
    return NotConnectedError(
        f"all {size} connections of this client were in use for {SECONDS_FOR_A_TURN:g} s, so nothing was sent. Allow "
        f"more with max_connections, or do less at once"
    )


async def _configure_async(connection: OwnAsyncConnection) -> None:
    login_pid = connection.info.backend_pid
    [(server_pid, _)] = await connection.fetch(_STEADY_PLANS, [login_pid])
    if server_pid == login_pid:
        return
    _expect_pooler(connection)
    [(isolation,)] = await connection.fetch(_DEFAULT_ISOLATION)
    connection.must_isolate = isolation != "read committed"


def configure(connection: OwnConnection) -> None:
    """Prepare a new connection for our statements, and find out whether a pooler stands in between."""
    login_pid = connection.info.backend_pid
    [(server_pid, _)] = connection.fetch(_STEADY_PLANS, [login_pid])
    if server_pid != login_pid:
        configure_behind_pooler(connection)


def configure_behind_pooler(connection: OwnConnection) -> None:
    """Prepare a connection whose sessions serve others next: nothing may stay behind there."""
    _expect_pooler(connection)
    [(isolation,)] = connection.fetch(_DEFAULT_ISOLATION)
    connection.must_isolate = isolation != "read committed"


def _expect_pooler(connection: OwnAsyncConnection | OwnConnection) -> None:
    connection.is_pooled, connection.prepare_threshold, connection.begin = True, None, BEGIN_POOLED


def _was_cut(connection: OwnAsyncConnection | OwnConnection) -> bool:
    """Whether the server has hung up on this idle connection; found out without a round trip.

    A connection that never listens has nothing to say when idle, except goodbye.
    """
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
