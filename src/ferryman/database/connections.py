"""Ferryman's own connections. Each keeps one cursor, because making a cursor costs as much as a small query.

Behind a pooler no session can be set up in advance. So each statement runs in a transaction with the settings that it
needs, in the same round trip. The pipeline is that transaction, unless the isolation must be chosen too. A qualified
statement needs no settings where the database has the isolation and the style of times that we need.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor

from ferryman.database.identifiers import SchemaName
from ferryman.database.iso_times import has_iso_times, read_iso_times
from ferryman.database.lazy_rows import LazyRows, NamedRows, columns_of
from ferryman.database.statements import Style, load_statement

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ferryman.database.lazy_rows import Columns
    from ferryman.database.steps import Row


T = TypeVar("T")

_IDLE = psycopg.pq.TransactionStatus.IDLE
_NO_SCHEMA = SchemaName("public")
BEGIN_POOLED = load_statement(__package__, "begin_pooled").text(_NO_SCHEMA, Style.NUMBERED)
_SETTLE_POOLED = load_statement(__package__, "settle_pooled").text(_NO_SCHEMA, Style.NUMBERED)
_BEGIN: LiteralString = "begin isolation level read committed"


class OwnAsyncConnection(AsyncConnection[tuple[Any, ...]]):
    """An async connection that runs one statement at a time, on one cursor that it keeps."""

    is_pooled = False
    """True if the connection leads to a pooler."""
    begin: LiteralString = "begin"
    """The command that begins a transaction; `BEGIN_POOLED` behind a pooler."""
    must_isolate = False
    """True behind a pooler if the database has another default isolation than `read committed`."""

    @cached_property
    def opened_at(self) -> float:
        """The moment at which the pool first used the connection, on the monotonic clock."""
        return time.monotonic()

    @cached_property
    def is_read_only(self) -> bool:
        """True if the server refused writes when this was opened; servers from version 14 on report it unasked."""
        return _is_read_only(self)

    @cached_property
    def _only_cursor(self) -> AsyncRawCursor[tuple[Any, ...]]:
        read_iso_times(self)
        return AsyncRawCursor(self)

    async def fetch(
        self, text: LiteralString, values: Sequence[Any] | None = None, *, is_qualified: bool = False
    ) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if self.is_pooled and not (is_qualified and _is_settled(self)):
            cursor = await self._execute_pooled(text, values)
        else:
            cursor = await self._only_cursor.execute(text, values)
        return await cursor.fetchall() if _has_rows(cursor) else ()

    async def _execute_pooled(
        self, text: LiteralString, values: Sequence[Any] | None
    ) -> AsyncRawCursor[tuple[Any, ...]]:
        # Scripts and what begins or ends a transaction have no values.
        if values is None or self.pgconn.transaction_status != _IDLE:
            return await self._only_cursor.execute(text, values)
        try:
            async with self.pipeline():
                if self.must_isolate:
                    await self.execute(_BEGIN)
                await self.execute(_SETTLE_POOLED)
                cursor = await self._only_cursor.execute(text, values)
                if self.must_isolate:
                    await self.execute("commit")
        except psycopg.Error:
            await self.rollback()
            raise
        return cursor

    @cached_property
    def _columns(self) -> dict[LiteralString, Columns]:
        """The columns of each statement's rows, as far as they are known."""
        return {}

    async def fetch_lazily(self, text: LiteralString, values: Sequence[Any]) -> LazyRows:
        """Run a query and return its rows undecoded."""
        execute = self._execute_pooled if self.is_pooled else self._only_cursor.execute
        result = (await execute(text, values)).pgresult
        assert result is not None  # noqa: S101 - it was executed
        columns = self._columns.get(text)
        if columns is None:
            columns = self._columns[text] = columns_of(self, result)
        return LazyRows(result, columns)


class OwnConnection(Connection[tuple[Any, ...]]):
    """A blocking connection that runs one statement at a time; otherwise like `OwnAsyncConnection`."""

    is_pooled = False
    begin: LiteralString = "begin"
    must_isolate = False
    _deadline: float | None = None

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        """Raise `OperationalError` in the block once the server has not answered for `seconds`."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = None

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Wait as the parent class does, but not beyond the deadline."""
        if self._deadline is not None:
            gen = _limited(gen, self._deadline)
        return super().wait(gen, *args, **options)

    @cached_property
    def opened_at(self) -> float:
        """The moment at which the pool first used the connection, on the monotonic clock."""
        return time.monotonic()

    @cached_property
    def is_read_only(self) -> bool:
        """True if the server refused writes when this was opened; servers from version 14 on report it unasked."""
        return _is_read_only(self)

    @cached_property
    def _only_cursor(self) -> RawCursor[tuple[Any, ...]]:
        read_iso_times(self)
        return RawCursor(self)

    def fetch(
        self, text: LiteralString, values: Sequence[Any] | None = None, *, is_qualified: bool = False
    ) -> Sequence[Row]:
        """Run a statement and return its rows."""
        if self.is_pooled and not (is_qualified and _is_settled(self)):
            cursor = self._execute_pooled(text, values)
        else:
            cursor = self._only_cursor.execute(text, values)
        return cursor.fetchall() if _has_rows(cursor) else ()

    def fetch_named(self, text: LiteralString, values: Sequence[Any]) -> NamedRows:
        """Run a query and return its rows, to be read by column name."""
        execute = self._execute_pooled if self.is_pooled else self._only_cursor.execute
        cursor = execute(text, values)
        return NamedRows([column.name for column in cursor.description or ()], cursor.fetchall())

    def _execute_pooled(self, text: LiteralString, values: Sequence[Any] | None) -> RawCursor[tuple[Any, ...]]:
        if values is None or self.pgconn.transaction_status != _IDLE:
            return self._only_cursor.execute(text, values)
        try:
            with self.pipeline():
                if self.must_isolate:
                    self.execute(_BEGIN)
                self.execute(_SETTLE_POOLED)
                cursor = self._only_cursor.execute(text, values)
                if self.must_isolate:
                    self.execute("commit")
        except psycopg.Error:
            self.rollback()
            raise
        return cursor


def _limited(conversation: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """Continue a conversation with the server, and fail once the deadline has passed."""
    try:
        wish = next(conversation)
        while True:
            readiness = yield wish
            if not readiness and time.monotonic() > deadline:
                raise psycopg.OperationalError("it did not answer in time")
            wish = conversation.send(readiness)
    except StopIteration as end:
        result: T = end.value
        return result


def _is_read_only(connection: OwnAsyncConnection | OwnConnection) -> bool:
    told = map(connection.pgconn.parameter_status, (b"default_transaction_read_only", b"in_hot_standby"))
    return b"on" in told


def _is_settled(connection: OwnAsyncConnection | OwnConnection) -> bool:
    """True if a session behind a pooler has the settings that we need, except the search_path."""
    return not connection.must_isolate and has_iso_times(connection)


def _has_rows(cursor: AsyncRawCursor[Any] | RawCursor[Any]) -> bool:
    # Not `cursor.description`, which describes every column at each call.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
