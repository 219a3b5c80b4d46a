"""A worker process: `python -m tests.support.programs.worker <dsn> <history> <options as JSON>`.

What happens is appended to the history, its log included. `tests.support.processes.WorkerProgram` says what the options
are. Tasks that do harm live in modules of their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import os
import struct
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path

from ferryman import App, Worker, WorkerContext
from ferryman.database import pools, retrying, timed
from ferryman.hooks import (
    HookRegistry,
    JobComplete,
    JobFail,
    JobInterrupted,
    JobPermanentlyFail,
    JobRecovery,
    SettleRefused,
    WorkerRecovered,
    WorkerStart,
)
from ferryman.queries import sweep
from ferryman.retries import FixedDelay
from ferryman.worker import LocalQueueConfig, sync_points
from ferryman.worker.claiming import listener
from tests.support.history import History, claim_of_job
from tests.support.programs import child_tasks, harmful_tasks
from tests.support.rhythms import recovery_of
from tests.support.waiting import until

dsn, history = sys.argv[1], History(Path(sys.argv[2]))
options = json.loads(sys.argv[3])
app = App(dsn)
app.include(child_tasks.app)
harmful_tasks.add_to(app, history)
hooks = HookRegistry()
FIELDS = {"duty", "hook", "count", "job_id"}
"""Of a record of the log; tests know lines by them."""

LONGER_THAN_ANY_TEST = 3600.0


@app.task
async def work(ctx: WorkerContext, gate: str | None = None, seconds: float = 0) -> None:
    """Run until the gate, a file, exists."""
    job = ctx.job
    facts = {
        "job": job.id,
        "worker": ctx.worker_id,
        "run": str(uuid.uuid4()),
        "claim": claim_of_job(job),
        "queue": job.queue_name,
        "attempts": job.attempts,
    }
    history.note("started", **facts)
    sync_points.reach("handler_running")
    try:
        if gate is not None:
            await until(Path(gate).exists, "the gate opens", within=LONGER_THAN_ANY_TEST)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        history.note("cancelled", lease_lost=ctx.lease_lost, **facts)
        raise
    history.note("ended", **facts)


app.task(work.function, identifier="fail_on_crash", on_crash="fail")
app.task(work.function, identifier="retry_on_crash", on_crash="retry", retry=FixedDelay(0.0))


@hooks.on(WorkerStart)
def _ready(event: WorkerStart) -> None:
    history.note("ready", worker=event.worker_id)


@hooks.on(JobComplete)
def _settled(event: JobComplete) -> None:
    history.note("settled", job=event.job.id, worker=event.worker_id, claim=claim_of_job(event.job))


@hooks.on(JobFail)
@hooks.on(JobPermanentlyFail)
def _failed(event: JobFail | JobPermanentlyFail) -> None:
    history.note("failed", job=event.job.id, worker=event.worker_id, error=event.error.partition("\n")[0])


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


class LogToHistory(logging.Handler):
    """What the worker says belongs to what happened."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: value for name, value in vars(record).items() if name in FIELDS}
        about = getattr(record, "event", "")
        history.note("log", level=record.levelname, message=record.getMessage(), about=about, **fields)


def stand_still(path: str) -> None:
    """Let CLOCK_MONOTONIC lag behind by the seconds in this file, as after a suspension of the machine.

    CLOCK_BOOTTIME, which goes on, is left as it is.
    """
    with Path(path).open("rb") as file:
        seconds = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    monotonic = time.monotonic
    time.monotonic = lambda: monotonic() - struct.unpack("d", seconds)[0]


def main() -> None:
    to_the_test = logging.StreamHandler()
    to_the_test.setLevel(logging.WARNING)
    form = f"{os.getpid()} %(message)s"
    logging.basicConfig(level=logging.WARNING, handlers=[LogToHistory(), to_the_test], format=form)
    logging.getLogger("ferryman").setLevel(logging.INFO)
    if options["faults"] is not None:
        sync_points.arm(options["faults"], str(history.path))
    pools._OPTIONS["connect_timeout"] = options["connect_seconds"]
    timed.STATEMENT_SECONDS = listener.SECONDS_FOR_AN_ANSWER = options["statement_seconds"]
    if options["standstill"] is not None:
        stand_still(options["standstill"])
    retrying.LONGEST_PAUSE_SECONDS = options["longest_pause_seconds"]
    sweep.IDLE_SECONDS = options["sweep_idle_seconds"]
    recovery = options["recovery"]
    worker = Worker(
        app,
        concurrency=options["concurrency"],
        poll_interval=timedelta(seconds=options["poll_seconds"]),
        complete_job_batch_delay=timedelta(seconds=options["gather_seconds"]),
        local_queue=None if options["prefetch"] is None else LocalQueueConfig(size=options["prefetch"]),
        use_notification_delivery=options["listens"],
        blocked_loop_threshold=None,
        hooks=hooks,
        **({} if recovery is None else {"recovery": recovery_of(recovery)}),
    )
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
