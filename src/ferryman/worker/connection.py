"""A worker's way to the database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ferryman.database.sessions import AsyncSession
from ferryman.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Call, Row, Steps

R = TypeVar("R")

STATEMENT_SECONDS = 60.0
"""How long an answer may take. A connection that a firewall has dropped would stay silent for ever."""


class WorkerConnection:
    """Runs one statement at a time, on any connection of the pool."""

    def __init__(self, pool: AsyncPool, schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Run the statement and give its rows back; a `DatabaseError` when that failed."""
        return await self._in_time(AsyncSession(lambda: self._pool, self._schema).fetch(call))

    async def run(self, steps: Steps[R]) -> R:
        """Carry out an operation of several statements; a `DatabaseError` when one of them failed."""
        return await self._in_time(AsyncSession(lambda: self._pool, self._schema).run(steps))

    async def _in_time(self, answer: Coroutine[None, None, R]) -> R:
        try:
            async with asyncio.timeout(STATEMENT_SECONDS):
                return await answer
        except TimeoutError:
            raise DatabaseUnavailableError(f"the database has not answered for {STATEMENT_SECONDS:g} s") from None
