"""Connections of our own, which keep one cursor each: making a cursor costs as much as a small query.

Behind a pooler whose database does not have `read committed` for a default, each statement gets a transaction of its
own that says so, in the same round trip: under a stricter isolation workers that claim side by side make each other
fail.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor

from ferryman.database.lazy_rows import LazyRows, loads_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ferryman.database.lazy_rows import Load
    from ferryman.database.steps import Row


T = TypeVar("T")

_IDLE = psycopg.pq.TransactionStatus.IDLE
READ_COMMITTED: LiteralString = "begin isolation level read committed"


class OwnAsyncConnection(AsyncConnection[tuple[Any, ...]]):
    """Runs one statement after the other."""

    is_pooled = False
    """True if a pooler stands between us and the server."""
    begin: LiteralString = "begin"
    """What begins a transaction; `READ_COMMITTED` where the database has another default, and a pooler keeps it so."""

    @cached_property
    def opened_at(self) -> float:
        """When its pool first saw it."""
        return time.monotonic()

    @cached_property
    def is_read_only(self) -> bool:
        """Whether the server refused writes when it was opened, as servers from version 14 on say unasked."""
        return _is_read_only(self)

    @cached_property
    def _only_cursor(self) -> AsyncRawCursor[tuple[Any, ...]]:
        return AsyncRawCursor(self)

    async def fetch(self, text: LiteralString, values: Sequence[Any] | None = None) -> Sequence[Row]:
        """Run a statement and give its rows back."""
        if self.begin is READ_COMMITTED:
            cursor = await self._execute_isolated(text, values)
        else:
            cursor = await self._only_cursor.execute(text, values)
        return await cursor.fetchall() if _has_rows(cursor) else ()

    async def _execute_isolated(
        self, text: LiteralString, values: Sequence[Any] | None
    ) -> AsyncRawCursor[tuple[Any, ...]]:
        # Scripts and what begins or ends a transaction have no values.
        if values is None or self.pgconn.transaction_status != _IDLE:
            return await self._only_cursor.execute(text, values)
        try:
            async with self.pipeline():
                await self.execute(READ_COMMITTED)
                cursor = await self._only_cursor.execute(text, values)
                await self.execute("commit")
        except psycopg.Error:
            await self.rollback()
            raise
        return cursor

    @cached_property
    def _loads(self) -> dict[LiteralString, Sequence[Load]]:
        """What decodes the columns of each statement."""
        return {}

    async def fetch_lazily(self, text: LiteralString, values: Sequence[Any]) -> LazyRows:
        """Run a query, and leave its rows as they came."""
        execute = self._execute_isolated if self.begin is READ_COMMITTED else self._only_cursor.execute
        result = (await execute(text, values)).pgresult
        assert result is not None  # noqa: S101 - it was executed
        loads = self._loads.get(text)
        if loads is None:
            loads = self._loads[text] = loads_of(self, result)
        return LazyRows(result, loads)


class OwnConnection(Connection[tuple[Any, ...]]):
    """The blocking twin of `OwnAsyncConnection`."""

    is_pooled = False
    begin: LiteralString = "begin"
    _deadline: float | None = None

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        """Give up on a server that is silent for so long: `OperationalError`, for everything inside of the block."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = None

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Like its parent's, but not beyond a deadline."""
        if self._deadline is not None:
            gen = limited(gen, self._deadline, "it did not answer in time")
        return super().wait(gen, *args, **options)

    @cached_property
    def opened_at(self) -> float:
        """When its pool first saw it."""
        return time.monotonic()

    @cached_property
    def is_read_only(self) -> bool:
        """Whether the server refused writes when it was opened, as servers from version 14 on say unasked."""
        return _is_read_only(self)

    @cached_property
    def _only_cursor(self) -> RawCursor[tuple[Any, ...]]:
        return RawCursor(self)

    def fetch(self, text: LiteralString, values: Sequence[Any] | None = None) -> Sequence[Row]:
        """Run a statement and give its rows back."""
        if self.begin is READ_COMMITTED:
            cursor = self._execute_isolated(text, values)
        else:
            cursor = self._only_cursor.execute(text, values)
        return cursor.fetchall() if _has_rows(cursor) else ()

    def _execute_isolated(self, text: LiteralString, values: Sequence[Any] | None) -> RawCursor[tuple[Any, ...]]:
        if values is None or self.pgconn.transaction_status != _IDLE:
            return self._only_cursor.execute(text, values)
        try:
            with self.pipeline():
                self.execute(READ_COMMITTED)
                cursor = self._only_cursor.execute(text, values)
                self.execute("commit")
        except psycopg.Error:
            self.rollback()
            raise
        return cursor


def limited(conversation: Generator[Any, Any, T], deadline: float, complaint: str) -> Generator[Any, Any, T]:
    """The same conversation with the server, which fails with the complaint when it goes on beyond the deadline."""
    try:
        wish = next(conversation)
        while True:
            readiness = yield wish
            if not readiness and time.monotonic() > deadline:
                raise psycopg.OperationalError(complaint)
            wish = conversation.send(readiness)
    except StopIteration as end:
        result: T = end.value
        return result


def _is_read_only(connection: OwnAsyncConnection | OwnConnection) -> bool:
    told = map(connection.pgconn.parameter_status, (b"default_transaction_read_only", b"in_hot_standby"))
    return b"on" in told


def _has_rows(cursor: AsyncRawCursor[Any] | RawCursor[Any]) -> bool:
    # Not `cursor.description`, which describes every column at each call.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
