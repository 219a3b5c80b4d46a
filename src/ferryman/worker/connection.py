"""A worker's way to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.sessions import AsyncSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.pools import AsyncPool
    from ferryman.database.steps import Call, Row, Steps


class WorkerConnection:
    """Runs one statement at a time, on any connection of the pool."""

    def __init__(self, pool: AsyncPool, schema: SchemaName) -> None:
        self._pool = pool
        self._schema = schema

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Run the statement and give its rows back; a `DatabaseError` when that failed."""
        return await AsyncSession(lambda: self._pool, self._schema).run(_one(call))


def _one(call: Call) -> Steps[Sequence[Row]]:
    rows = yield call
    return rows
