"""Opens transactions on connections that the application passed with `using=`, if it has not opened one itself.

An operation of several statements is then stored as a whole or not at all, also on a connection that commits each
statement. If a transaction is open, or the driver begins one by itself, nothing is opened here: the caller commits.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.borrowed import django_connection, is_a
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType


def async_transaction_on(using: Any) -> AbstractAsyncContextManager[Any]:
    """Open a transaction on the caller's connection for the block, unless one is open."""
    if isinstance(using, psycopg.AsyncConnection):
        return using.transaction() if using.autocommit and _is_idle(using) else nullcontext()
    if is_a(using, "sqlalchemy.ext.asyncio", "AsyncConnection", "AsyncSession", "async_scoped_session"):
        return _on_sqlalchemy_async(using)
    is_in_transaction = getattr(using, "is_in_transaction", None)  # asyncpg
    if is_in_transaction is None or is_in_transaction():
        return nullcontext()
    return _with_commands(using.execute)


def sync_transaction_on(using: Any) -> AbstractContextManager[Any]:
    """Like `async_transaction_on`, for blocking connections."""
    if isinstance(using, psycopg.Connection):
        return using.transaction() if using.autocommit and _is_idle(using) else nullcontext()
    if is_a(using, "sqlalchemy", "Connection") or is_a(using, "sqlalchemy.orm", "Session", "scoped_session"):
        return _on_sqlalchemy(using)
    if isinstance(using, str) or is_a(using, "django.db.backends.base.base", "BaseDatabaseWrapper"):
        return _on_django(django_connection(using))
    return nullcontext()


@asynccontextmanager
async def _with_commands(execute: Callable[[str], Awaitable[object]]) -> AsyncIterator[None]:
    """Run the block in a transaction that is opened and ended by plain SQL commands.

    asyncpg's own `transaction()` stays open if it is cancelled while it begins.
    """
    try:
        await execute("begin")
        yield
    except BaseException:
        with suppress(Exception):
            await execute("rollback")
        raise
    await execute("commit")


@asynccontextmanager
async def _on_sqlalchemy_async(using: Any) -> AsyncIterator[None]:
    connection = using if hasattr(using, "get_raw_connection") else await using.connection()
    if not _commits_by_itself(await connection.get_raw_connection()):
        yield
        return
    text = sys.modules["sqlalchemy"].text
    async with _with_commands(lambda command: connection.execute(text(command))):
        yield


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
    """True if the connection below SQLAlchemy commits each statement."""
    return bool(getattr(raw.dbapi_connection, "autocommit", False)) and _is_idle(raw.driver_connection)


def _is_idle(driver: Any) -> bool:
    is_in_transaction = getattr(driver, "is_in_transaction", None)  # asyncpg
    if is_in_transaction is not None:
        return not is_in_transaction()
    if not hasattr(driver, "info"):  # pg8000, or another driver below SQLAlchemy
        raise ConfigurationError(
            f"using= got a connection of {type(driver).__module__} that commits each statement, and does not "
            f"report whether a transaction is open, so several statements cannot be undone together. Nothing was sent. "
            f"Use a connection that is not in autocommit, or one of psycopg or asyncpg."
        )
    return bool(driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)


@contextmanager
def _on_django(wrapper: Any) -> Iterator[None]:
    """Run the block in a transaction on this Django connection.

    Django's `atomic()` finds connections by alias, and would miss a `connection.copy()`.
    """
    if wrapper.in_atomic_block or not wrapper.get_autocommit():
        yield
        return
    wrapper.set_autocommit(False)
    try:
        yield
        wrapper.commit()
    except BaseException:
        try:
            wrapper.rollback()
        except Exception:  # noqa: BLE001 - the connection is lost, and with it the transaction
            wrapper.close()
        raise
    finally:
        if wrapper.connection is not None:
            wrapper.set_autocommit(True)


def as_exit(
    error: BaseException | None,
) -> tuple[type[BaseException] | None, BaseException | None, TracebackType | None]:
    """The arguments for `__exit__` of a block that ends with this error, or without one."""
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)
