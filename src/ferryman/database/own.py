"""Connections of our own, which keep one cursor each: making a cursor costs as much as a small query."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor

from ferryman.database.lazy_rows import LazyRows, loads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.lazy_rows import Load
    from ferryman.database.steps import Row


class OwnAsyncConnection(AsyncConnection[tuple[Any, ...]]):
    """Runs one statement after the other."""

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
        cursor = await self._only_cursor.execute(text, values)
        return await cursor.fetchall() if _has_rows(cursor) else ()

    @cached_property
    def _loads(self) -> dict[LiteralString, Sequence[Load]]:
        """What decodes the columns of each statement."""
        return {}

    async def fetch_lazily(self, text: LiteralString, values: Sequence[Any]) -> LazyRows:
        """Run a query, and leave its rows as they came."""
        result = (await self._only_cursor.execute(text, values)).pgresult
        assert result is not None  # noqa: S101 - it was executed
        loads = self._loads.get(text)
        if loads is None:
            loads = self._loads[text] = loads_of(self, result)
        return LazyRows(result, loads)


class OwnConnection(Connection[tuple[Any, ...]]):
    """The blocking twin of `OwnAsyncConnection`."""

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
        cursor = self._only_cursor.execute(text, values)
        return cursor.fetchall() if _has_rows(cursor) else ()


def _is_read_only(connection: OwnAsyncConnection | OwnConnection) -> bool:
    told = map(connection.pgconn.parameter_status, (b"default_transaction_read_only", b"in_hot_standby"))
    return b"on" in told


def _has_rows(cursor: AsyncRawCursor[Any] | RawCursor[Any]) -> bool:
    # Not `cursor.description`, which describes every column at each call.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
