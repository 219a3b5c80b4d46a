"""A worker process: `python -m tests.support.programs.worker <dsn> <history> <options as JSON>`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import uuid
from datetime import timedelta
from pathlib import Path

from ferryman import App, Worker, WorkerContext
from ferryman.database import pools
from ferryman.hooks import HookRegistry, JobComplete, JobFail, JobPermanentlyFail, SettleRefused, WorkerStart
from ferryman.worker import LocalQueueConfig, connection, listener, sync_points
from tests.support.claims import claim_of_job
from tests.support.history import History
from tests.support.programs import child_tasks
from tests.support.waiting import until

dsn, history = sys.argv[1], History(Path(sys.argv[2]))
options = json.loads(sys.argv[3])
app = App(dsn)
app.include(child_tasks.app)
hooks = HookRegistry()


@app.task
async def work(ctx: WorkerContext, gate: str | None = None, seconds: float = 0) -> None:
    """Run until the gate, a file, exists."""
    run, job = str(uuid.uuid4()), ctx.job
    facts = {"job": job.id, "worker": ctx.worker_id, "run": run, "claim": claim_of_job(job), "queue": job.queue_name}
    history.note("started", **facts)
    sync_points.reach("handler_running")
    if gate is not None:
        await until(Path(gate).exists, "the gate opens")
    await asyncio.sleep(seconds)
    history.note("ended", **facts)


@app.task
async def leave(ctx: WorkerContext) -> None:
    """Let a task of the handler's own end the program."""
    history.note("leaving", job=ctx.job.id)

    async def exit_from_below() -> None:
        sys.exit(3)

    below = asyncio.create_task(exit_from_below())
    await asyncio.wait([below])


@app.task
def fork(ctx: WorkerContext) -> None:
    """Let forked processes end: as a program does, and by coming back from where only the worker should."""
    child = os.fork()
    if child == 0:
        sys.exit(3)
    _, first = os.waitpid(child, 0)
    child = os.fork()
    if child == 0:
        return
    _, second = os.waitpid(child, 0)
    history.note("forked", job=ctx.job.id, codes=[os.waitstatus_to_exitcode(status) for status in (first, second)])


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


class LogToHistory(logging.Handler):
    """What the worker says belongs to what happened."""

    def emit(self, record: logging.LogRecord) -> None:
        history.note("log", logger=record.name, level=record.levelname, message=record.getMessage())


def main() -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[LogToHistory()])
    logging.getLogger("ferryman").setLevel(logging.INFO)
    pools._OPTIONS["connect_timeout"] = listener.CONNECT_TIMEOUT_SECONDS = options["connect_seconds"]
    connection.STATEMENT_SECONDS = listener.SECONDS_FOR_AN_ANSWER = options["statement_seconds"]
    worker = Worker(
        app,
        concurrency=options["concurrency"],
        poll_interval=timedelta(seconds=options["poll_seconds"]),
        complete_job_batch_delay=timedelta(seconds=options["gather_seconds"]),
        local_queue=None if options["prefetch"] is None else LocalQueueConfig(size=options["prefetch"]),
        use_notification_delivery=options["listens"],
        blocked_loop_threshold=None,
        hooks=hooks,
    )
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
