"""A program that runs a worker until a signal ends it: `python -m tests.support.programs.ending DSN STORM_SECONDS`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from ferryman import App, Worker, WorkerContext, WorkerShutdownConfig
from ferryman.worker import stopping

app = App(sys.argv[1])


@app.task
async def work(ctx: WorkerContext, folder: str) -> None:
    """Tell what it knows by files, and run until one called `gate` exists."""
    begun, told, gate = (Path(folder) / name for name in ("begun", "told", "gate"))
    await asyncio.to_thread(begun.touch)
    while not await asyncio.to_thread(gate.exists):
        if ctx.is_shutting_down:
            await asyncio.to_thread(told.touch)
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    stopping.SECONDS_THAT_A_STORM_LASTS = float(sys.argv[2])
    # Longer than any test waits.
    shutdown = WorkerShutdownConfig(grace_period=timedelta(minutes=2))
    asyncio.run(Worker(app, concurrency=2, shutdown=shutdown, blocked_loop_threshold=None).run())
