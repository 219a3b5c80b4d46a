"""Tasks for the second act of the demo: `ferryman worker fleet_tasks --processes 3`.

Each run leaves lines in a file outside PostgreSQL, so that the demo can check what really ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman import App, Snooze, WorkerContext, WorkerOptions, WorkerRecoveryConfig
from ferryman.cron import CrontabFill
from ferryman.hooks import (
    FailureReason,
    HookRegistry,
    JobComplete,
    JobFail,
    JobInterrupted,
    SettleRefused,
    WorkerRecovered,
)
from ferryman.retries import FixedDelay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman import Job

RECOVERY = WorkerRecoveryConfig(
    heartbeat_interval=timedelta(seconds=1),
    sweep_interval=timedelta(seconds=1),
    sweep_threshold=timedelta(seconds=3),
    claimed_threshold=timedelta(seconds=3),
    lost_session_grace=timedelta(seconds=1.5),
    recovery_delay=timedelta(),
)
"""Impatient, since somebody is watching. The defaults bear with slow networks and busy machines."""

hooks = HookRegistry()
app = App(worker=WorkerOptions(recovery=RECOVERY, hooks=hooks))


def note(what: str, worker: str, **facts: Any) -> None:
    line = json.dumps({"what": what, "at": time.monotonic_ns(), "worker": worker, **facts})
    descriptor = os.open(os.environ["DEMO_HISTORY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def facts_of(job: Job) -> dict[str, Any]:
    """A claim is a job, its owner, and since when."""
    claim = f"{job.id} {job.locked_by} {job.locked_at}"
    return {"job": job.id, "task": job.task_identifier, "queue": job.queue_name, "claim": claim}


@contextmanager
def noted(ctx: WorkerContext, **more: Any) -> Iterator[None]:
    facts = facts_of(ctx.job) | more
    note("start", ctx.worker_id, **facts)
    try:
        yield
    except BaseException:
        note("raise", ctx.worker_id, **facts)
        raise
    note("end", ctx.worker_id, **facts)


@hooks.on(JobComplete)
def _completed(event: JobComplete) -> None:
    note("settle", event.worker_id, **facts_of(event.job))


@hooks.on(JobFail)
def _failed(event: JobFail) -> None:
    note("fail", event.worker_id, **facts_of(event.job))


@hooks.on(JobInterrupted)
def _taken(event: JobInterrupted) -> None:
    if event.reason is FailureReason.WORKER_CRASHED:
        note("take", event.worker_id, **facts_of(event.job))


@hooks.on(WorkerRecovered)
def _swept(event: WorkerRecovered) -> None:
    note("sweep", event.worker_id, dead=[*event.dead_worker_ids])


@hooks.on(SettleRefused)
def _refused(event: SettleRefused) -> None:
    note("refuse", event.worker_id, job=event.job_id)


@app.task
async def quick(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        pass


@app.task
async def slow(ctx: WorkerContext, seconds: float) -> None:
    with noted(ctx):
        await asyncio.sleep(seconds)


@app.task
def threaded(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        pass


@app.task
async def serial(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        pass


@app.task(retry=FixedDelay(0.1))
async def flaky(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        if ctx.job.attempts == 1:
            raise ConnectionError("try me again")


@app.task(run_in="process")
def heavy(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        pass


@app.task(batch=True, retry=FixedDelay(0.1))
async def batch(ctx: WorkerContext, items: list[int]) -> list[Exception | None]:
    with noted(ctx):
        return [ValueError("once more") if item % 2 and ctx.job.attempts == 1 else None for item in items]


@app.task
async def sleepy(ctx: WorkerContext, n: int) -> None:
    with noted(ctx):
        if ctx.job.created_at == ctx.job.updated_at:
            raise Snooze(timedelta(milliseconds=200))


@app.cron("* * * * *", fill=CrontabFill.minutes(3), payload={"bell": "great"})
@app.task
async def chime(ctx: WorkerContext, bell: str, _cron: dict[str, Any]) -> None:
    with noted(ctx, cron=_cron):
        pass


@app.task
async def report(ctx: WorkerContext, to: str, _cron: dict[str, Any]) -> None:
    with noted(ctx, to=to, cron=_cron):
        pass
