"""Writes the progress that handlers report: the newest report of each job, for all jobs together, once a second."""

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


class ProgressWriter:
    """Gathers and writes progress reports. A worker whose handlers report none pays nothing."""

    def __init__(self, database: TimedDatabase) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm()
        self._open: set[Claim] = set()
        """Claims whose attempts are under way. Reports of other claims come too late."""
        self._told: dict[Claim, tuple[float, str | None]] = {}
        self._written: set[Claim] = set()
        self._ended: set[Claim] = set()
        self._retrying = Retrying("writing the progress of jobs", logger=logger)
        self.writing = asyncio.Lock()
        """Held while progress is written, and while tokens of claims change."""

    def reporter(self, claim: Claim) -> Callable[[float, str | None], None]:
        """The function with which the handler of this claim reports progress, from any thread."""
        self._open.add(claim)

        def report(fraction: float, message: str | None) -> None:
            told = (float(fraction), None if message is None else storable_error(str(message))[:LONGEST_MESSAGE])
            self._loop.call_soon_threadsafe(self._note, claim, told)

        return report

    def ended(self, claim: Claim) -> None:
        """Drop the progress of an attempt that is over."""
        self._open.discard(claim)
        self._told.pop(claim, None)
        if claim in self._written:
            self._written.discard(claim)
            self._ended.add(claim)
            self._alarm.ring()

    async def run(self) -> None:
        """Write the newest progress reports once a second, until cancelled."""
        while True:
            await self._alarm.wait(_FOR_EVER)
            try:
                await self.write()
            except FerrymanError as error:
                await asyncio.sleep(self._retrying.pause_after(error))
                self._alarm.ring()
            else:
                self._retrying.is_over()
                await asyncio.sleep(SECONDS_BETWEEN_WRITES)

    async def write(self) -> None:
        """Write the reports that are not written yet."""
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
            await self._database.fetch(save_progress(_encoder.encode(rows).decode()))
            for claim, latest in told:
                if self._told.get(claim) == latest:
                    del self._told[claim]
        if ended:
            await self._database.fetch(forget_progress([claim.job_id for claim in ended]))
            self._ended.difference_update(ended)

    def _note(self, claim: Claim, told: tuple[float, str | None]) -> None:
        if claim not in self._open:
            return  # its attempt has ended before this was handed over
        self._told[claim] = told
        self._alarm.ring()
