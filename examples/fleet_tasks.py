"""Tasks for the second act of the demo: `ferryman worker fleet_tasks --processes 3`.

Each run leaves a line in a file outside PostgreSQL, so that the demo can check what really ran.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

from ferryman import App, Snooze, WorkerContext
from ferryman.retries import FixedDelay

app = App()


def note(ctx: WorkerContext, what: str) -> None:
    run = {"job": ctx.job.id, "task": ctx.job.task_identifier, "what": what, "queue": ctx.job.queue_name}
    line = json.dumps({**run, "attempt": ctx.job.attempts, "pid": os.getpid(), "at": time.monotonic_ns()})
    descriptor = os.open(os.environ["DEMO_HISTORY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


@app.task
async def quick(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")


@app.task
def threaded(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")


@app.task
async def serial(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")
    note(ctx, "end")


@app.task(retry=FixedDelay(0.1))
async def flaky(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")
    if ctx.job.attempts == 1:
        raise ConnectionError("try me again")


@app.task(run_in="process")
def heavy(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")


@app.task(batch=True, retry=FixedDelay(0.1))
async def batch(ctx: WorkerContext, items: list[int]) -> list[Exception | None]:
    note(ctx, "start")
    return [ValueError("once more") if item % 2 and ctx.job.attempts == 1 else None for item in items]


@app.task
async def sleepy(ctx: WorkerContext, n: int) -> None:
    note(ctx, "start")
    if ctx.job.created_at == ctx.job.updated_at:
        raise Snooze(timedelta(milliseconds=200))
