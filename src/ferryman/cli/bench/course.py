"""The jobs of a run, the application that they belong to, and how far they have come."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ferryman import App
from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from ferryman.cli.bench.ground import Ground

SECONDS_OF_PATIENCE = 30.0


class StalledError(FerrymanError):
    """Jobs were there, and none of them came to its end for long."""


class Course:
    """Counts jobs as they end. `work` jobs wait for as long as the run is told to; `call` jobs say that they began.

    The handlers do next to nothing, so that what is measured is Ferryman.
    """

    def __init__(self, ground: Ground, *, job_ms: float) -> None:
        self.app = App(ground.database_url, schema=ground.schema)
        self.started_at = 0.0
        self._patience = SECONDS_OF_PATIENCE + job_ms / 1000
        self._goal = self._ended = 0
        self._is_there = asyncio.Event()
        seconds = job_ms / 1000

        async def work(number: int) -> None:  # noqa: ARG001 - a payload like any other
            if seconds:
                await asyncio.sleep(seconds)
            self._count()

        async def call(number: int) -> None:  # noqa: ARG001 - a payload like any other
            self.started_at = time.perf_counter()
            self._count()

        self.work = self.app.task(identifier="bench_work")(work)
        self.call = self.app.task(identifier="bench_call")(call)

    def begin(self, goal: int) -> None:
        """Count from here, up to so many jobs."""
        self._goal, self._ended = goal, 0
        self._is_there.clear()

    async def end(self) -> None:
        """Wait until all jobs have ended; `StalledError` when none does for long. A worker by itself never gives up."""
        while not self._is_there.is_set():
            before = self._ended
            try:
                async with asyncio.timeout(self._patience):
                    await self._is_there.wait()
            except TimeoutError:
                if self._ended == before:
                    raise StalledError(
                        f"no job has ended for {self._patience:g} s, {self._ended:,} of {self._goal:,} are done, and "
                        f"the run was given up. Does the server still answer? See `ferryman doctor`."
                    ) from None

    def _count(self) -> None:
        self._ended += 1
        if self._ended == self._goal:
            self._is_there.set()
