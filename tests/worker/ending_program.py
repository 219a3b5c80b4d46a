"""A program that runs a worker until a signal ends it: `python -m tests.worker.ending_program DSN`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from ferryman import App, Worker, WorkerShutdownConfig

app = App(sys.argv[1])


@app.task
async def work(note: str, seconds: float) -> None:
    await asyncio.to_thread(Path(note).touch)
    await asyncio.sleep(seconds)


if __name__ == "__main__":
    # Longer than any test waits.
    shutdown = WorkerShutdownConfig(grace_period=timedelta(minutes=1))
    asyncio.run(Worker(app, concurrency=2, shutdown=shutdown).run())
