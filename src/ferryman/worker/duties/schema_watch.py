"""Shuts a worker down when its schema is migrated to a revision that it does not support.

Graphile announces migrations on a channel that all schemas of a database share, so an announcement may be about another
schema. The worker then reads the table of migrations (the ledger) of its own.
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
    from ferryman.client import Client
    from ferryman.errors import SchemaError
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

_FOR_EVER = 86_400.0
SECONDS_BETWEEN_LOOKS = 1.0
# Another program is expected to end these. Until it has, a worker that gives heartbeats starts no job.
_PASSING = (GivenWayError, MigrationUnderWayError)


class SchemaWatch:
    """Reads the schema's revision after each announcement of a migration."""

    def __init__(self, client: Client, stop: Stopping) -> None:
        self._client = client
        self._stop = stop
        self._alarm = Alarm()
        self._retrying = Retrying("reading the revision of the schema", logger=logger)
        self._waits_for: type[SchemaError] | None = None

    def announced(self) -> None:
        """Take note that a schema of this database was migrated."""
        self._alarm.ring()

    async def run(self) -> None:
        """Read the schema's revision after each announcement, until cancelled or the schema cannot be used any more."""
        while True:
            await self._alarm.wait(_FOR_EVER)
            try:
                problem = (await self._client.schema_status()).problem
            except DatabaseError as error:
                await self._look_again_in(self._retrying.pause_after(error))
                continue
            self._retrying.is_over()
            if isinstance(problem, _PASSING):
                self._say_that_it_waits(problem)
                await self._look_again_in(SECONDS_BETWEEN_LOOKS)
                continue
            self._waits_for = None
            if problem is not None:
                logger.error(
                    "the schema was migrated to a revision that this worker does not support; shutting down: %s",
                    problem,
                    extra={"event": "schema_incompatible"},
                )
                self._stop.give_up(problem)
                return

    def _say_that_it_waits(self, problem: SchemaError) -> None:
        if self._waits_for is not type(problem):
            self._waits_for = type(problem)
            logger.warning(
                "the worker cannot use the schema at the moment (%s); it waits until another program has migrated the "
                "schema",
                problem,
                extra={"event": "schema_awaited"},
            )

    async def _look_again_in(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._alarm.ring()
