"""Runs statements on connections that the application passed with `using=`, as part of its own transaction.

Each kind of connection gets a small function that runs one statement on it. The libraries are never imported: a
connection can only come from a library that the caller has imported already.
"""

from __future__ import annotations

import sys
from datetime import timezone
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg.adapt import Loader
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from ferryman.database.statements import Style
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from psycopg.abc import Buffer

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row

    AsyncFetch: TypeAlias = Callable[[Call, SchemaName], Awaitable[Sequence[Row]]]
    SyncFetch: TypeAlias = Callable[[Call, SchemaName], Sequence[Row]]


def async_fetch_for(using: Any) -> AsyncFetch:
    """Return the function that runs a statement on this async connection.

    Raises `ConfigurationError` if it is not a connection that Ferryman knows, or a blocking one.
    """
    if isinstance(using, psycopg.AsyncConnection):
        return _fetch_psycopg_async
    if is_a(using, "asyncpg", "Connection") or is_a(using, "asyncpg.pool", "PoolConnectionProxy"):
        return _fetch_asyncpg
    if is_a(using, "sqlalchemy.ext.asyncio", "AsyncConnection", "AsyncSession", "async_scoped_session"):
        return _fetch_sqlalchemy_async
    if _find_sync_fetch(using) is not None:
        raise ConfigurationError(
            f"using= got a blocking connection ({_kind(using)}), which would stop the event loop; nothing was sent. "
            f"Use it with SyncClient, or give Client an async connection."
        )
    raise _unknown(using)


def sync_fetch_for(using: Any) -> SyncFetch:
    """Return the function that runs a statement on this blocking connection.

    Raises `ConfigurationError` if it is not a connection that Ferryman knows, or an async one.
    """
    fetch = _find_sync_fetch(using)
    if fetch is not None:
        return fetch
    try:
        async_fetch_for(using)
    except ConfigurationError:
        raise _unknown(using) from None
    raise ConfigurationError(
        f"using= got an async connection ({_kind(using)}), which SyncClient cannot await; nothing was sent. "
        f"Use it with Client, or give SyncClient a blocking connection."
    )


def _find_sync_fetch(using: Any) -> SyncFetch | None:
    if isinstance(using, psycopg.Connection):
        return _fetch_psycopg_sync
    if is_a(using, "sqlalchemy", "Connection") or is_a(using, "sqlalchemy.orm", "Session", "scoped_session"):
        return _fetch_sqlalchemy_sync
    if isinstance(using, str) or is_a(using, "django.db.backends.base.base", "BaseDatabaseWrapper"):
        return _fetch_django
    return None


async def _fetch_psycopg_async(call: Call, schema: SchemaName) -> Sequence[Row]:
    # Our own cursor: the caller's row and cursor factories are made for the caller's queries.
    async with psycopg.AsyncRawCursor(call.using, row_factory=tuple_row) as cursor:
        _read_whatever_the_session_has(cursor)
        await cursor.execute(call.statement.text(schema, Style.NUMBERED), call.statement.ordered(call.parameters))
        return await cursor.fetchall()


def _fetch_psycopg_sync(call: Call, schema: SchemaName) -> Sequence[Row]:
    with psycopg.RawCursor(call.using, row_factory=tuple_row) as cursor:
        _read_whatever_the_session_has(cursor)
        cursor.execute(call.statement.text(schema, Style.NUMBERED), call.statement.ordered(call.parameters))
        return cursor.fetchall()


async def _fetch_asyncpg(call: Call, schema: SchemaName) -> Sequence[Row]:
    text = call.statement.text(schema, Style.NUMBERED)
    rows: Sequence[Row] = await call.using.fetch(text, *call.statement.ordered(call.parameters))
    return rows


async def _fetch_sqlalchemy_async(call: Call, schema: SchemaName) -> Sequence[Row]:
    # Through SQLAlchemy's own execute: below it, no transaction is open until SQLAlchemy has run a statement.
    result = await call.using.execute(_sqlalchemy_text(call, schema), dict(call.parameters))
    rows: Sequence[Row] = result.fetchall()
    return rows


def _fetch_sqlalchemy_sync(call: Call, schema: SchemaName) -> Sequence[Row]:
    rows: Sequence[Row] = call.using.execute(_sqlalchemy_text(call, schema), dict(call.parameters)).fetchall()
    return rows


def _sqlalchemy_text(call: Call, schema: SchemaName) -> Any:
    return sys.modules["sqlalchemy"].text(call.statement.text(schema, Style.NAMED))


def _fetch_django(call: Call, schema: SchemaName) -> Sequence[Row]:
    with django_connection(call.using).cursor() as cursor:
        _keep_zones(cursor.cursor)
        cursor.execute(call.statement.text(schema, Style.FORMATTED), dict(call.parameters))
        rows: Sequence[Row] = cursor.fetchall()
        return rows


def _keep_zones(cursor: Any) -> None:
    """Make a cursor of ours return times with their zones, which Django drops if USE_TZ is False."""
    if isinstance(cursor, psycopg.Cursor):
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
    elif hasattr(cursor, "tzinfo_factory"):  # psycopg2
        cursor.tzinfo_factory = timezone


def _read_whatever_the_session_has(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> None:
    """Make a cursor of ours read times of any DateStyle, and text of a session that names no encoding."""
    cursor.format = psycopg.pq.Format.BINARY
    if cursor.connection.info.encoding == "ascii":  # SQL_ASCII, for which the driver would give bytes
        cursor.adapters.register_loader("text", _Utf8Loader)


class _Utf8Loader(Loader):
    format = psycopg.pq.Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data).decode()


def django_connection(using: Any) -> Any:
    """Return the Django connection of an alias."""
    if not isinstance(using, str):
        return using
    django_db = sys.modules.get("django.db")
    if django_db is None:
        raise ConfigurationError(
            f"using={using!r} names a Django connection, but Django is not loaded; nothing was sent. Set Django up "
            f"first, or pass a connection."
        )
    return django_db.connections[using]


def is_a(using: Any, module: str, *names: str) -> bool:
    """True if this is an instance of one of these classes, whose module is loaded."""
    loaded = sys.modules.get(module)
    kinds = tuple(kind for name in names if isinstance(kind := getattr(loaded, name, None), type))
    return isinstance(using, kinds)


def _kind(using: Any) -> str:
    return f"{type(using).__module__}.{type(using).__qualname__}"


def _unknown(using: Any) -> ConfigurationError:
    return ConfigurationError(
        f"using= got {_kind(using)}, which is no connection that Ferryman knows; nothing was sent. Known are "
        f"psycopg 3, asyncpg and SQLAlchemy connections, SQLAlchemy sessions, and Django connections or aliases."
    )
