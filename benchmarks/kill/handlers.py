"""What the jobs do: take their time, raise, end or freeze their process, and tell of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.kill.recorder import Recorder
    from ferryman import WorkerContext

EXIT_CODE = 70


class PlannedError(Exception):
    """What the plan wanted."""


@dataclass(frozen=True, slots=True)
class Order:
    """The payload of a job; see `JobPlan`."""

    number: int
    seconds: float
    fails: int = 0
    exits: int = 0
    stops: bool = False


class Handlers:
    """Bodies of tasks. Made before the fork, and told afterwards to whom they belong."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.recorder = recorder

    @property
    def _recorder(self) -> Recorder:
        assert self.recorder is not None
        return self.recorder

    async def on_loop(self, ctx: WorkerContext, order: Order) -> None:
        """For tasks on the event loop, which may be cancelled."""
        run = self._begin(ctx, order)
        await self._sleep(ctx, run, order.seconds)
        self._end(ctx, run, order)

    def blocking(self, ctx: WorkerContext, order: Order) -> None:
        """For tasks in threads and child processes."""
        run = self._begin(ctx, order)
        time.sleep(order.seconds)
        self._end(ctx, run, order)

    async def batch(self, ctx: WorkerContext, items: list[Order]) -> list[str | None] | None:
        """All items say the same. The last one fails as often as they say."""
        order = items[0]
        run = self._begin(ctx, order)
        await self._sleep(ctx, run, order.seconds)
        if ctx.job.attempts <= order.fails:
            self._recorder.note("raised", **run)
            return [None if place < len(items) - 1 else "planned" for place in range(len(items))]
        self._recorder.note("ended", **run)
        return None

    def _begin(self, ctx: WorkerContext, order: Order) -> dict[str, Any]:
        run = self._recorder.begin(ctx, order.number)
        if self._recorder.is_first(order.number, order.exits, "exit"):
            self._recorder.note("exiting", **run, is_child=ctx.client is None)
            os._exit(EXIT_CODE)
        if order.stops and self._recorder.is_first(order.number, 1, "stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
        return run

    async def _sleep(self, ctx: WorkerContext, run: dict[str, Any], seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._recorder.note("cancelled", **run, is_lost=ctx.lease_lost)
            raise

    def _end(self, ctx: WorkerContext, run: dict[str, Any], order: Order) -> None:
        if ctx.job.attempts <= order.fails:
            self._recorder.note("raised", **run)
            raise PlannedError
        self._recorder.note("ended", **run)
