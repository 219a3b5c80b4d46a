"""Carries out operations on the database: on connections of our own pool, or on the caller's.

`AsyncSession` here and `SyncSession` in `blocking_sessions` are the same few lines, once with `await` and once without.
`fetch` and lazy rows are for workers alone, which are always asynchronous.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, assert_never, cast

import psycopg

from ferryman.database.borrowed import async_fetch_for
from ferryman.database.borrowed_transactions import as_exit, async_transaction_on
from ferryman.database.failures import explained, is_stale
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
    from contextlib import AbstractAsyncContextManager

    from ferryman.database.connections import OwnAsyncConnection
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Row, Step, Steps

R = TypeVar("R")

_NOTHING: Sequence[Row] = ()

logger = logging.getLogger("ferryman.hooks")


class AsyncSession:
    """Carries out one operation on the database. Takes a connection from the pool when a step first needs one."""

    def __init__(self, pool: Callable[[], AsyncPool], schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema
        self._connection: OwnAsyncConnection | None = None
        self._in_transaction = False
        self._is_stale = False
        self._borrowed: AbstractAsyncContextManager[Any] | None = None
        self.may_repeat = True
        """False after a step that must not be repeated: in the caller's transaction, or by itself (`Repeat`)."""

    async def run(self, steps: Steps[R]) -> R:
        """Carry out the steps of the operation; commit at the end, roll back if they raise."""
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
                    if isinstance(step, Repeat):  # already explained
                        advance = partial(steps.throw, error)
                        continue
                    if isinstance(error, FerrymanError):
                        raise
                    self._is_stale = self._is_stale or is_stale(error)
                    advance = partial(steps.throw, explained(error, self._schema))
                else:
                    advance = partial(steps.send, rows)
        except BaseException as error:
            await self._end_borrowed(error)
            raise
        finally:
            steps.close()
            await self._give_back()

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Carry out an operation of one call, as `run` would, at less cost."""
        try:
            return await self._ask(call)
        except FerrymanError:
            raise
        except Exception as error:
            self._is_stale = is_stale(error)
            raise explained(error, self._schema) from error
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
        """Carry out a step that ends or opens a transaction. A transaction that the caller opened stays open."""
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
            raise explained(error, self._schema) from error

    async def _end_borrowed(self, error: BaseException | None) -> None:
        """Commit the transaction that was opened here on the caller's connection, or roll it back after an error."""
        block, self._borrowed = self._borrowed, None
        if block is None:
            return
        try:
            await block.__aexit__(*as_exit(error))
        except Exception as failure:
            if error is None:
                raise explained(failure, self._schema) from failure

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


async def perform(pool: Callable[[], AsyncPool], schema: SchemaName, start: Callable[[], Steps[R]]) -> R:
    """Carry out an operation, and repeat it from its start if PostgreSQL has undone all of it."""
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


async def _decided(step: Decide) -> object:
    try:
        async with asyncio.timeout(step.limit):
            return await step.hooks.intercept(step.event)
    except TimeoutError:
        name = type(step.event).__name__
        logger.error(  # noqa: TRY400 - the time is up, no more
            "a %s hook did not answer within %g s; treating it as failed",
            name,
            step.limit,
            extra={"event": "hook_timed_out", "hook": name},
        )
        return step.event.after_error(f"a {name} hook did not answer in time")
