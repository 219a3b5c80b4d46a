"""Transactions on the caller's connections, for several statements that belong together where no transaction is open.

On connections that begin a transaction by themselves, or are in one, nothing happens: it is the caller who commits.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.borrowed import django_connection, is_a

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


def async_transaction_on(using: Any) -> AbstractAsyncContextManager[Any]:
    """A transaction for as long as the block lasts, unless the caller has one."""
    if isinstance(using, psycopg.AsyncConnection):
        return using.transaction() if using.autocommit and _is_idle(using) else nullcontext()
    if is_a(using, "sqlalchemy.ext.asyncio", "AsyncConnection", "AsyncSession", "async_scoped_session"):
        return _on_sqlalchemy_async(using)
    is_in_transaction = getattr(using, "is_in_transaction", None)  # asyncpg
    if is_in_transaction is None or is_in_transaction():
        return nullcontext()
    transaction: AbstractAsyncContextManager[Any] = using.transaction()
    return transaction


def sync_transaction_on(using: Any) -> AbstractContextManager[Any]:
    """The blocking twin of `async_transaction_on`."""
    if isinstance(using, psycopg.Connection):
        return using.transaction() if using.autocommit and _is_idle(using) else nullcontext()
    if is_a(using, "sqlalchemy", "Connection") or is_a(using, "sqlalchemy.orm", "Session", "scoped_session"):
        return _on_sqlalchemy(using)
    if isinstance(using, str) or is_a(using, "django.db.backends.base.base", "BaseDatabaseWrapper"):
        return _on_django(django_connection(using))
    return nullcontext()


@asynccontextmanager
async def _on_sqlalchemy_async(using: Any) -> AsyncIterator[None]:
    connection = using if hasattr(using, "get_raw_connection") else await using.connection()
    if not _commits_by_itself(await connection.get_raw_connection()):
        yield
        return
    text = sys.modules["sqlalchemy"].text
    try:
        await connection.execute(text("begin"))
        yield
    except BaseException:
        await connection.execute(text("rollback"))
        raise
    await connection.execute(text("commit"))


@contextmanager
def _on_sqlalchemy(using: Any) -> Iterator[None]:
    connection = using if is_a(using, "sqlalchemy", "Connection") else using.connection()
    if not _commits_by_itself(connection.connection):
        yield
        return
    text = sys.modules["sqlalchemy"].text
    try:
        connection.execute(text("begin"))
        yield
    except BaseException:
        connection.execute(text("rollback"))
        raise
    connection.execute(text("commit"))


def _commits_by_itself(raw: Any) -> bool:
    """Whether a connection below SQLAlchemy commits each statement."""
    return bool(getattr(raw.dbapi_connection, "autocommit", False)) and _is_idle(raw.driver_connection)


def _is_idle(driver: Any) -> bool:
    is_in_transaction = getattr(driver, "is_in_transaction", None)  # asyncpg
    if is_in_transaction is not None:
        return not is_in_transaction()
    return bool(driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)


def _on_django(wrapper: Any) -> AbstractContextManager[Any]:
    if wrapper.in_atomic_block or not wrapper.get_autocommit():
        return nullcontext()
    block: AbstractContextManager[Any] = sys.modules["django.db"].transaction.atomic(using=wrapper.alias)
    return block
