"""Ends a worker whose schema is migrated, under its feet, to something that it cannot use.

Graphile announces migrations on a channel that all schemas of a database share, so an announcement is only a reason to
read the ledger of our own schema.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ferryman.database.retrying import Retrying
from ferryman.errors import DatabaseError
from ferryman.schema.refusals import GivenWayError, MigrationUnderWayError
from ferryman.worker.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.client import Client
    from ferryman.errors import SchemaError

logger = logging.getLogger("ferryman.worker")

_FOR_EVER = 86_400.0
SECONDS_BETWEEN_LOOKS = 1.0
# Another program is expected to end these. Until it has, a worker that gives heartbeats starts no job.
_PASSING = (GivenWayError, MigrationUnderWayError)


class SchemaWatch:
    """Looks at the schema when somebody has announced a migration."""

    def __init__(self, client: Client, give_up: Callable[[SchemaError], None]) -> None:
        self._client = client
        self._give_up = give_up
        self._alarm = Alarm()
        self._trouble = Retrying("reading the revision of the schema", logger=logger)
        self._waits_for: type[SchemaError] | None = None

    def announced(self) -> None:
        """Somebody has migrated a schema of this database."""
        self._alarm.ring()

    async def run(self) -> None:
        """Look after each announcement, until cancelled or the schema cannot be used any more."""
        while True:
            await self._alarm.wait(_FOR_EVER)
            try:
                problem = (await self._client.schema_status()).problem
            except DatabaseError as error:
                await self._look_again_in(self._trouble.pause_after(error))
                continue
            self._trouble.is_over()
            if isinstance(problem, _PASSING):
                self._say_that_it_waits(problem)
                await self._look_again_in(SECONDS_BETWEEN_LOOKS)
                continue
            self._waits_for = None
            if problem is not None:
                logger.error(
                    "the schema was migrated, and this worker cannot go on: %s",
                    problem,
                    extra={"event": "schema_incompatible"},
                )
                self._give_up(problem)
                return

    def _say_that_it_waits(self, problem: SchemaError) -> None:
        if self._waits_for is not type(problem):
            self._waits_for = type(problem)
            logger.warning("this worker waits with its jobs: %s", problem, extra={"event": "schema_awaited"})

    async def _look_again_in(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._alarm.ring()
