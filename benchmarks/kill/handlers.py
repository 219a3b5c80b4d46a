"""The handlers of the test: they wait, raise, snooze, time out, complete their job, or end or freeze their process.

Each handler notes what it does in the history.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import FerrymanError, LeaseLostError, Snooze

if TYPE_CHECKING:
    from benchmarks.kill.recorder import Recorder
    from ferryman import WorkerContext

EXIT_CODE = 70
SNOOZE = timedelta(seconds=0.2)
LONGER_THAN_ANY_TIMEOUT = 3600.0


TRANSACTION = "select cast(cast(pg_current_xact_id() as text) as bigint)"
"""The number of a transaction. PostgreSQL can say later whether that was committed."""


class PlannedError(Exception):
    """The error that the plan wants a handler to raise."""


@dataclass(frozen=True, slots=True)
class Order:
    """The payload of a job; see `JobPlan`."""

    number: int
    seconds: float
    fails: int = 0
    exits: int = 0
    snoozes: int = 0
    stops: bool = False


class Handlers:
    """The functions of the tasks. Made before the fork; each worker process sets itself as their owner afterwards.

    dsn: the database in which handlers open transactions
    """

    def __init__(self, recorder: Recorder | None = None, *, dsn: str = "") -> None:
        self.recorder = recorder
        self._dsn = dsn

    @property
    def _recorder(self) -> Recorder:
        assert self.recorder is not None
        return self.recorder

    async def on_loop(self, ctx: WorkerContext, order: Order) -> None:
        """Handle a job on the event loop, where it may be cancelled."""
        run = self._begin(ctx, order)
        await self._sleep(ctx, run, order.seconds)
        self._end(ctx, run, order)

    async def timed(self, ctx: WorkerContext, order: Order) -> None:
        """Handle a job of a task with a timeout: its attempts fail by the timeout."""
        run = self._begin(ctx, order)
        seconds = LONGER_THAN_ANY_TIMEOUT if ctx.job.attempts <= order.fails else order.seconds
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            is_ended_by_worker = ctx.lease_lost or ctx.is_shutting_down
            self._recorder.note("cancelled" if is_ended_by_worker else "raised", **run, is_lost=ctx.lease_lost)
            raise
        self._end(ctx, run, order)

    async def in_transaction(self, ctx: WorkerContext, order: Order) -> None:
        """Complete the job in a transaction, keep that open for a while, and perhaps roll it back."""
        run = self._begin(ctx, order)
        try:
            async with await psycopg.AsyncConnection.connect(self._dsn) as own:
                await self._complete(ctx, run, order, own)
        except (asyncio.CancelledError, LeaseLostError):
            self._recorder.note("cancelled", **run, is_lost=ctx.lease_lost)
            raise
        except (PlannedError, psycopg.Error, FerrymanError) as error:
            self._recorder.note("raised", **run, error=repr(error))
            raise
        self._recorder.note("ended", **run)

    async def _complete(
        self, ctx: WorkerContext, run: dict[str, Any], order: Order, own: psycopg.AsyncConnection[Any]
    ) -> None:
        row = await (await own.execute(TRANSACTION)).fetchone()
        assert row is not None
        await ctx.complete_in(own)
        await asyncio.sleep(order.seconds)
        if ctx.job.attempts <= order.fails:
            raise PlannedError
        # Noted before: once this is committed the job is done and its queue is free, even if this process is killed.
        self._recorder.note("committing", **run, transaction=row[0])
        await own.commit()

    def blocking(self, ctx: WorkerContext, order: Order) -> None:
        """Handle a job in a thread or a child process."""
        run = self._begin(ctx, order)
        time.sleep(order.seconds)
        self._end(ctx, run, order)

    async def batch(self, ctx: WorkerContext, items: list[Order]) -> list[str | None] | None:
        """Handle a batch whose items are all the same. The last one fails as often as the plan wants."""
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
            self._recorder.note("exiting", **run, is_child=self._recorder.is_child)
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
        if self._recorder.is_first(order.number, order.snoozes, "snooze"):
            self._recorder.note("snoozed", **run)
            raise Snooze(SNOOZE)
        self._recorder.note("ended", **run)
