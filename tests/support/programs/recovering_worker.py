"""A worker process with recovery: python -m tests.support.programs.recovering_worker DSN HISTORY OPTIONS

OPTIONS is JSON: concurrency, prefetch (the size of a local queue, or null), and the settings of recovery in seconds.
What happens is appended to the history, as in the crash tests.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from ferryman import App, Worker, WorkerContext
from ferryman.hooks import (
    HookRegistry,
    JobComplete,
    JobFetch,
    JobInterrupted,
    JobRecovery,
    SettleRefused,
    WorkerRecovered,
    WorkerStart,
)
from ferryman.queries import recovering
from ferryman.retries import FixedDelay
from ferryman.worker import LocalQueueConfig
from tests.support.history import History
from tests.support.rhythms import recovery_of
from tests.support.waiting import until

dsn, history = sys.argv[1], History(Path(sys.argv[2]))
options = json.loads(sys.argv[3])
app = App(dsn)
hooks = HookRegistry()


@app.task
async def work(ctx: WorkerContext, gate: str | None = None) -> None:
    """Run until the gate, a file, exists."""
    history.note("started", job=ctx.job.id, worker=ctx.worker_id, attempts=ctx.job.attempts)
    try:
        if gate is not None:
            await until(Path(gate).exists, "the gate opens")
    except asyncio.CancelledError:
        history.note("cancelled", job=ctx.job.id, worker=ctx.worker_id, lease_lost=ctx.lease_lost)
        raise
    history.note("ended", job=ctx.job.id, worker=ctx.worker_id)


app.task(work.function, identifier="fail_on_crash", on_crash="fail")
app.task(work.function, identifier="retry_on_crash", on_crash="retry", retry=FixedDelay(0.0))


@app.task
def hold_the_interpreter(ctx: WorkerContext, seconds: float) -> None:
    """Let no other thread run: a call by way of `PyDLL` keeps the interpreter's lock."""
    history.note("started", job=ctx.job.id, worker=ctx.worker_id)
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    history.note("ended", job=ctx.job.id, worker=ctx.worker_id)


@app.task
async def compute(ctx: WorkerContext, seconds: float) -> None:
    """Block the event loop with a loop of Python's."""
    history.note("started", job=ctx.job.id, worker=ctx.worker_id)
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass
    history.note("ended", job=ctx.job.id, worker=ctx.worker_id)


@app.task
async def die(ctx: WorkerContext, ways: list[str]) -> None:
    """End the process, each time in the next of these ways."""
    earlier = len(history.jobs("started", job=ctx.job.id))
    history.note("started", job=ctx.job.id, worker=ctx.worker_id)
    _WAYS_TO_DIE[ways[earlier % len(ways)]]()


def _fill_memory() -> None:
    hoard = []
    while True:
        hoard.append(b"x" * 10_000_000)


_WAYS_TO_DIE = {
    "segmentation fault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "out of memory": _fill_memory,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@hooks.on(WorkerStart)
def _ready(event: WorkerStart) -> None:
    history.note("ready", worker=event.worker_id)


@hooks.on(JobFetch)
def _fetched(event: JobFetch) -> None:
    history.note("fetched", job=event.job.id, worker=event.worker_id)


@hooks.on(JobComplete)
def _settled(event: JobComplete) -> None:
    history.note("settled", job=event.job.id, worker=event.worker_id)


@hooks.on(SettleRefused)
def _refused(event: SettleRefused) -> None:
    history.note("refused", job=event.job_id, worker=event.worker_id)


@hooks.on(JobRecovery)
def _asked(event: JobRecovery) -> None:
    history.note("asked", job=event.job.id, worker=event.worker_id, previous=event.previous_worker_id)


@hooks.on(JobInterrupted)
def _interrupted(event: JobInterrupted) -> None:
    history.note("interrupted", job=event.job.id, worker=event.worker_id, reason=event.reason.value)


@hooks.on(WorkerRecovered)
def _recovered(event: WorkerRecovered) -> None:
    history.note("recovered", worker=event.worker_id, dead=[*event.dead_worker_ids], jobs=event.jobs_recovered)


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format=f"{os.getpid()} %(message)s")
    recovering.IDLE_SECONDS = 2.0  # a process may be frozen in the middle of a sweep
    worker = Worker(
        app,
        concurrency=options["concurrency"],
        poll_interval=timedelta(seconds=0.2),
        local_queue=None if options["prefetch"] is None else LocalQueueConfig(size=options["prefetch"]),
        recovery=recovery_of(options["recovery"]),
        hooks=hooks,
    )
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
