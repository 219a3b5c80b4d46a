"""Carry out an operation's steps: on connections of our own pool, or on the caller's.

`AsyncSession` and `SyncSession` are the same few lines, once with `await` and once without; workers, which are always
asynchronous and in a hurry, have a method of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, assert_never, cast

import psycopg

from ferryman.database.borrowed import async_fetch_for, sync_fetch_for
from ferryman.database.borrowed_transactions import async_transaction_on, sync_transaction_on
from ferryman.database.failures import explain, is_stale
from ferryman.database.retrying import pause_before, should_try_again
from ferryman.database.statements import Style
from ferryman.database.steps import (
    Call,
    Commit,
    Decide,
    Emit,
    FirstProcess,
    Repeat,
    Rollback,
    Script,
    Transaction,
    Wait,
)
from ferryman.errors import DatabaseError, FerrymanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType

    from ferryman.database.connections import OwnAsyncConnection, OwnConnection
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import AsyncPool, SyncPool
    from ferryman.database.steps import Row, Step, Steps

R = TypeVar("R")

_NOTHING: Sequence[Row] = ()

logger = logging.getLogger("ferryman.hooks")


class AsyncSession:
    """One operation under way. It takes a connection from the pool only when a step needs one."""

    def __init__(self, pool: Callable[[], AsyncPool], schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema
        self._connection: OwnAsyncConnection | None = None
        self._in_transaction = False
        self._is_stale = False
        self._borrowed: AbstractAsyncContextManager[Any] | None = None
        self.may_repeat = True
        """False once a step cannot be undone or is repeated by itself: a caller's transaction is the caller's."""

    async def run(self, steps: Steps[R]) -> R:
        """Carry out the steps; commit at their end, roll back when they raise."""
        advance: Callable[[], Step] = partial(next, steps)
        try:
            while True:
                try:
                    step = advance()
                except StopIteration as done:
                    await self._end("commit")
                    await self._end_borrowed(None)
                    return cast("R", done.value)
                try:
                    rows = await self._take(step)
                except Exception as error:
                    if isinstance(step, Repeat):  # what the database said was told already
                        advance = partial(steps.throw, error)
                        continue
                    if isinstance(error, FerrymanError):
                        raise
                    self._is_stale = self._is_stale or is_stale(error)
                    advance = partial(steps.throw, _told(error, self._schema))
                else:
                    advance = partial(steps.send, rows)
        except BaseException as error:
            await self._end_borrowed(error)
            raise
        finally:
            steps.close()
            await self._give_back()

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Carry out one call that is an operation by itself: what `run` would do, with less around it."""
        try:
            return await self._ask(call)
        except FerrymanError:
            raise
        except Exception as error:
            self._is_stale = is_stale(error)
            raise _told(error, self._schema) from error
        finally:
            await self._give_back()

    async def _take(self, step: Step) -> Sequence[Row]:
        match step:
            case Call() | Script():
                return await self._ask(step)
            case Transaction() | Commit() | Rollback():
                await self._turn(step)
            case Decide():
                return [(await _decided(step),)]
            case Emit():
                await step.hooks.emit(step.event, within=step.within)
            case Wait():
                if not self._in_transaction:
                    await self._give_back()  # it may be the only one, and a wait takes a minute
                await asyncio.sleep(step.seconds)
            case FirstProcess():
                return [((await self._own()).info.backend_pid,)]
            case Repeat():
                self.may_repeat = False
                await self._end("commit")
                await self._give_back()  # it may be the only one
                return [(await perform(self._pool, self._schema, step.start),)]
            case never:
                assert_never(never)
        return _NOTHING

    async def _ask(self, step: Call | Script) -> Sequence[Row]:
        if isinstance(step, Script):
            return await (await self._own()).fetch(step.statement.text(self._schema, Style.NUMBERED))
        if step.using is not None:
            self.may_repeat = False
            return await async_fetch_for(step.using)(step, self._schema)
        connection = await self._own()
        text = step.statement.text(self._schema, Style.NUMBERED)
        values = step.statement.ordered(step.parameters)
        if step.is_lazy:
            return await connection.fetch_lazily(text, values)
        return await connection.fetch(text, values, is_qualified=step.statement.is_qualified)

    async def _turn(self, step: Transaction | Commit | Rollback) -> None:
        """End the transaction that is open, and perhaps begin one. A transaction of the owner of a connection stays."""
        if isinstance(step, Transaction) and step.using is not None:
            if self._borrowed is None:
                block = async_transaction_on(step.using)
                await block.__aenter__()
                self._borrowed = block
            return
        await self._end("rollback" if isinstance(step, Rollback) else "commit")
        if isinstance(step, Transaction):
            connection = await self._own()
            await connection.fetch(connection.begin)
            self._in_transaction = True

    async def _own(self) -> OwnAsyncConnection:
        if self._connection is None:
            self._lender = self._pool()
            self._connection = await self._lender.getconn()
        return self._connection

    async def _end(self, command: LiteralString) -> None:
        if self._connection is None or not self._in_transaction:
            return
        self._in_transaction = False
        try:
            await self._connection.fetch(command)
        except psycopg.Error as error:
            raise _told(error, self._schema) from error

    async def _end_borrowed(self, error: BaseException | None) -> None:
        """Commit what was begun on a borrowed connection, or undo it because of an error."""
        block, self._borrowed = self._borrowed, None
        if block is None:
            return
        try:
            await block.__aexit__(*_as_exit(error))
        except Exception as failure:
            if error is None:
                raise _told(failure, self._schema) from failure

    async def _give_back(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            if self._in_transaction:
                with contextlib.suppress(psycopg.Error):
                    await connection.rollback()
            if self._is_stale:
                await connection.close()
        finally:
            # To where it came from: the client may have been closed since. Also when cancelled.
            await self._lender.putconn(connection)


class SyncSession:
    """The blocking twin of `AsyncSession`."""

    def __init__(self, pool: Callable[[], SyncPool], schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema
        self._connection: OwnConnection | None = None
        self._in_transaction = False
        self._is_stale = False
        self._borrowed: AbstractContextManager[Any] | None = None
        self.may_repeat = True

    def run(self, steps: Steps[R]) -> R:
        """Carry out the steps; commit at their end, roll back when they raise."""
        advance: Callable[[], Step] = partial(next, steps)
        try:
            while True:
                try:
                    step = advance()
                except StopIteration as done:
                    self._end("commit")
                    self._end_borrowed(None)
                    return cast("R", done.value)
                try:
                    rows = self._take(step)
                except Exception as error:
                    if isinstance(step, Repeat):  # what the database said was told already
                        advance = partial(steps.throw, error)
                        continue
                    if isinstance(error, FerrymanError):
                        raise
                    self._is_stale = self._is_stale or is_stale(error)
                    advance = partial(steps.throw, _told(error, self._schema))
                else:
                    advance = partial(steps.send, rows)
        except BaseException as error:
            self._end_borrowed(error)
            raise
        finally:
            steps.close()
            self._give_back()

    def _take(self, step: Step) -> Sequence[Row]:
        match step:
            case Call() | Script():
                return self._ask(step)
            case Transaction() | Commit() | Rollback():
                self._turn(step)
            case Decide():
                return [(step.hooks.intercept_blocking(step.event),)]
            case Emit():
                step.hooks.emit_blocking(step.event)
            case Wait():
                if not self._in_transaction:
                    self._give_back()
                time.sleep(step.seconds)
            case FirstProcess():
                return [(self._own().info.backend_pid,)]
            case Repeat():
                self.may_repeat = False
                self._end("commit")
                self._give_back()
                return [(perform_blocking(self._pool, self._schema, step.start),)]
            case never:
                assert_never(never)
        return _NOTHING

    def _ask(self, step: Call | Script) -> Sequence[Row]:
        if isinstance(step, Script):
            return self._own().fetch(step.statement.text(self._schema, Style.NUMBERED))
        if step.using is not None:
            self.may_repeat = False
            return sync_fetch_for(step.using)(step, self._schema)
        connection = self._own()
        text = step.statement.text(self._schema, Style.NUMBERED)
        values = step.statement.ordered(step.parameters)
        if step.is_lazy:
            return connection.fetch_named(text, values)
        return connection.fetch(text, values, is_qualified=step.statement.is_qualified)

    def _turn(self, step: Transaction | Commit | Rollback) -> None:
        """End the transaction that is open, and perhaps begin one. A transaction of the owner of a connection stays."""
        if isinstance(step, Transaction) and step.using is not None:
            if self._borrowed is None:
                block = sync_transaction_on(step.using)
                block.__enter__()
                self._borrowed = block
            return
        self._end("rollback" if isinstance(step, Rollback) else "commit")
        if isinstance(step, Transaction):
            connection = self._own()
            connection.fetch(connection.begin)
            self._in_transaction = True

    def _own(self) -> OwnConnection:
        if self._connection is None:
            self._lender = self._pool()
            self._connection = self._lender.getconn()
        return self._connection

    def _end(self, command: LiteralString) -> None:
        if self._connection is None or not self._in_transaction:
            return
        self._in_transaction = False
        try:
            self._connection.fetch(command)
        except psycopg.Error as error:
            raise _told(error, self._schema) from error

    def _end_borrowed(self, error: BaseException | None) -> None:
        """Commit what was begun on a borrowed connection, or undo it because of an error."""
        block, self._borrowed = self._borrowed, None
        if block is None:
            return
        try:
            block.__exit__(*_as_exit(error))
        except Exception as failure:
            if error is None:
                raise _told(failure, self._schema) from failure

    def _give_back(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            if self._in_transaction:
                with contextlib.suppress(psycopg.Error):
                    connection.rollback()
            if self._is_stale:
                connection.close()
        finally:
            self._lender.putconn(connection)


async def perform(pool: Callable[[], AsyncPool], schema: SchemaName, start: Callable[[], Steps[R]]) -> R:
    """Carry out an operation, again from its start when PostgreSQL has undone all of it."""
    attempt = 1
    while True:
        session = AsyncSession(pool, schema)
        try:
            return await session.run(start())
        except DatabaseError as error:
            if not session.may_repeat or not should_try_again(error, attempt):
                raise
        await asyncio.sleep(pause_before(attempt))
        attempt += 1


def perform_blocking(pool: Callable[[], SyncPool], schema: SchemaName, start: Callable[[], Steps[R]]) -> R:
    """The blocking twin of `perform`."""
    attempt = 1
    while True:
        session = SyncSession(pool, schema)
        try:
            return session.run(start())
        except DatabaseError as error:
            if not session.may_repeat or not should_try_again(error, attempt):
                raise
        time.sleep(pause_before(attempt))
        attempt += 1


async def _decided(step: Decide) -> object:
    try:
        async with asyncio.timeout(step.limit):
            return await step.hooks.intercept(step.event)
    except TimeoutError:
        name = type(step.event).__name__
        logger.error(  # noqa: TRY400 - the time is up, no more
            "a %s hook did not answer within %g s, and counts as failed",
            name,
            step.limit,
            extra={"event": "hook_timed_out", "hook": name},
        )
        return step.event.after_error(f"a {name} hook did not answer in time")


def _as_exit(
    error: BaseException | None,
) -> tuple[type[BaseException] | None, BaseException | None, TracebackType | None]:
    """What a `with` block is told at its end."""
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def _told(error: Exception, schema: SchemaName) -> FerrymanError:
    told = explain(error, schema)
    told.__cause__ = error
    return told
