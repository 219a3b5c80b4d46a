"""Gives a worker access to the database with a time limit for every answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ferryman.database.sessions import AsyncSession
from ferryman.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Call, Row, Steps

R = TypeVar("R")

STATEMENT_SECONDS = 60.0
"""How long an answer may take. A connection that a firewall has dropped would stay silent for ever."""


class TimedDatabase:
    """Runs statements and operations on connections of a pool, each within a number of seconds.

    seconds: how long a statement or an operation may take; `STATEMENT_SECONDS` unless given
    """

    def __init__(self, pool: AsyncPool, schema: SchemaName, seconds: float | None = None) -> None:
        self._pool = lambda: pool
        self._schema = schema
        self._seconds = STATEMENT_SECONDS if seconds is None else seconds

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Run one statement and return its rows; `DatabaseError` if it failed."""
        try:
            async with asyncio.timeout(self._seconds):
                return await AsyncSession(self._pool, self._schema).fetch(call)
        except TimeoutError:
            raise DatabaseUnavailableError(f"the database has not answered for {self._seconds:g} s") from None

    async def run(self, steps: Steps[R]) -> R:
        """Carry out an operation of several statements; `DatabaseError` if one of them failed."""
        try:
            async with asyncio.timeout(self._seconds):
                return await AsyncSession(self._pool, self._schema).run(steps)
        except TimeoutError:
            raise DatabaseUnavailableError(f"the operation did not finish within {self._seconds:g} s") from None
