"""Connections of our own: pools that notice dead connections and poolers in between."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import OperationalError
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from ferryman.database.identifiers import SchemaName
from ferryman.database.own import OwnAsyncConnection, OwnConnection
from ferryman.database.statements import Style, load_statement
from ferryman.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from ferryman.database.addresses import Address

AsyncPool: TypeAlias = AsyncConnectionPool[OwnAsyncConnection]
SyncPool: TypeAlias = ConnectionPool[OwnConnection]

CONNECT_TIMEOUT_SECONDS = 10
_OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS}
_NO_SCHEMA = SchemaName("public")
_BACKEND_PID = load_statement(__package__, "backend_pid").text(_NO_SCHEMA, Style.NUMBERED)
_STEADY_PLANS = load_statement(__package__, "steady_plans").text(_NO_SCHEMA, Style.NUMBERED)


async def open_async_pool(address: Address, *, size: int) -> AsyncPool:
    """A pool that has reached the server once; `DatabaseUnavailableError` says why it could not."""
    try:
        # Asked first because a pool that cannot connect only says that it timed out.
        await (await OwnAsyncConnection.connect(address.conninfo, **_OPTIONS)).close()
    except psycopg.Error as error:
        raise _unreachable(address, error) from None
    pool: AsyncPool = AsyncConnectionPool(
        address.conninfo,
        connection_class=OwnAsyncConnection,
        kwargs=_OPTIONS,
        min_size=1,
        max_size=size,
        open=False,
        configure=_configure_async,
        check=_check_async,
    )
    await pool.open()
    return pool


def open_sync_pool(address: Address, *, size: int) -> SyncPool:
    """The blocking twin of `open_async_pool`."""
    try:
        OwnConnection.connect(address.conninfo, **_OPTIONS).close()
    except psycopg.Error as error:
        raise _unreachable(address, error) from None
    pool: SyncPool = ConnectionPool(
        address.conninfo,
        connection_class=OwnConnection,
        kwargs=_OPTIONS,
        min_size=1,
        max_size=size,
        open=False,
        configure=_configure_sync,
        check=_check_sync,
    )
    pool.open()
    return pool


def _unreachable(address: Address, error: Exception) -> DatabaseUnavailableError:
    # The cause is told, not chained: libpq's exceptions may carry the whole connection string.
    return DatabaseUnavailableError(
        f"could not connect to {address}: {str(error).strip()}. Check that PostgreSQL runs there and that the "
        f"address is right, or start a local one with: ferryman postgres"
    )


async def _configure_async(connection: OwnAsyncConnection) -> None:
    [(server_pid,)] = await connection.fetch(_BACKEND_PID)
    if server_pid == connection.info.backend_pid:
        await connection.fetch(_STEADY_PLANS)
    else:
        connection.prepare_threshold = None


def _configure_sync(connection: OwnConnection) -> None:
    [(server_pid,)] = connection.fetch(_BACKEND_PID)
    if server_pid == connection.info.backend_pid:
        connection.fetch(_STEADY_PLANS)
    else:
        connection.prepare_threshold = None


async def _check_async(connection: OwnAsyncConnection) -> None:
    if _was_cut(connection):
        await connection.close()
        raise OperationalError("the server closed this idle connection")


def _check_sync(connection: OwnConnection) -> None:
    if _was_cut(connection):
        connection.close()
        raise OperationalError("the server closed this idle connection")


def _was_cut(connection: OwnAsyncConnection | OwnConnection) -> bool:
    """Whether the server has hung up on this idle connection; found out without a round trip.

    A connection that never listens has nothing to say when idle, except goodbye.
    """
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
