"""Carries out operations on the database for blocking code: like `sessions`, without `await`."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, assert_never, cast

import psycopg

from ferryman.database.borrowed import sync_fetch_for
from ferryman.database.borrowed_transactions import as_exit, sync_transaction_on
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
    from contextlib import AbstractContextManager

    from ferryman.database.connections import OwnConnection
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import SyncPool
    from ferryman.database.steps import Row, Step, Steps

R = TypeVar("R")

_NOTHING: Sequence[Row] = ()


class SyncSession:
    """Carries out one operation on the database, for blocking code; otherwise like `AsyncSession`."""

    def __init__(self, pool: Callable[[], SyncPool], schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema
        self._connection: OwnConnection | None = None
        self._in_transaction = False
        self._is_stale = False
        self._borrowed: AbstractContextManager[Any] | None = None
        self.may_repeat = True

    def run(self, steps: Steps[R]) -> R:
        """Carry out the steps of the operation; commit at the end, roll back if they raise."""
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
        """Carry out a step that ends or opens a transaction. A transaction that the caller opened stays open."""
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
            raise explained(error, self._schema) from error

    def _end_borrowed(self, error: BaseException | None) -> None:
        """Commit the transaction that was opened here on the caller's connection, or roll it back after an error."""
        block, self._borrowed = self._borrowed, None
        if block is None:
            return
        try:
            block.__exit__(*as_exit(error))
        except Exception as failure:
            if error is None:
                raise explained(failure, self._schema) from failure

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


def perform_blocking(pool: Callable[[], SyncPool], schema: SchemaName, start: Callable[[], Steps[R]]) -> R:
    """Carry out an operation in blocking code; otherwise like `perform`."""
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
