"""Writes how far handlers say they are: the last of what was told, at most once a second, all jobs together."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from ferryman.database.retrying import Retrying
from ferryman.errors import FerrymanError
from ferryman.queries.attempt import forget_progress, save_progress
from ferryman.worker.alarm import Alarm
from ferryman.worker.settling.outcomes import storable_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim

logger = logging.getLogger("ferryman.worker")

SECONDS_BETWEEN_WRITES = 1.0
LONGEST_MESSAGE = 1_000
_FOR_EVER = 86_400.0

_encoder = msgspec.json.Encoder()


class Progress:
    """What running jobs have told. A worker whose handlers tell nothing pays nothing."""

    def __init__(self, connection: TimedDatabase) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm()
        self._open: set[Claim] = set()
        """Claims whose attempts are under way. What is told by others comes too late."""
        self._told: dict[Claim, tuple[float, str | None]] = {}
        self._written: set[Claim] = set()
        self._ended: set[Claim] = set()
        self._trouble = Retrying("writing the progress of jobs", logger=logger)
        self.writing = asyncio.Lock()
        """Held while progress is written. Who holds it may change the tokens of claims."""

    def reporter(self, claim: Claim) -> Callable[[float, str | None], None]:
        """What the handler of this claim calls, from any thread."""
        self._open.add(claim)

        def report(fraction: float, message: str | None) -> None:
            told = (float(fraction), None if message is None else storable_error(str(message))[:LONGEST_MESSAGE])
            self._loop.call_soon_threadsafe(self._note, claim, told)

        return report

    def ended(self, claim: Claim) -> None:
        """The attempt is over, and so is its progress."""
        self._open.discard(claim)
        self._told.pop(claim, None)
        if claim in self._written:
            self._written.discard(claim)
            self._ended.add(claim)
            self._alarm.ring()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._alarm.wait(_FOR_EVER)
            try:
                await self.write()
            except FerrymanError as error:
                await asyncio.sleep(self._trouble.pause_after(error))
                self._alarm.ring()
            else:
                self._trouble.is_over()
                await asyncio.sleep(SECONDS_BETWEEN_WRITES)

    async def write(self) -> None:
        """Write what was told and not yet written."""
        async with self.writing:
            await self._write()

    async def _write(self) -> None:
        told, ended = [*self._told.items()], [*self._ended]
        if told:
            rows = [
                {"id": job_id, "locked_by": claim.worker_id, "token": token, "fraction": fraction, "message": message}
                for claim, (fraction, message) in told
                for job_id, token, _ in claim.keys
            ]
            self._written.update(claim for claim, _ in told)
            await self._connection.fetch(save_progress(_encoder.encode(rows).decode()))
            for claim, latest in told:
                if self._told.get(claim) == latest:
                    del self._told[claim]
        if ended:
            await self._connection.fetch(forget_progress([claim.job_id for claim in ended]))
            self._ended.difference_update(ended)

    def _note(self, claim: Claim, told: tuple[float, str | None]) -> None:
        if claim not in self._open:
            return  # its attempt has ended before this was handed over
        self._told[claim] = told
        self._alarm.ring()
