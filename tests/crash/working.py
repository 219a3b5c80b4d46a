"""A worker process: `python -m tests.crash.working <dsn> <history> <options as JSON>`."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import until

from ferryman import App, Worker, WorkerContext
from ferryman.hooks import HookRegistry, JobComplete, SettleRefused, WorkerStart
from ferryman.worker import connection, sync_points

from .claims import claim_of
from .history import History

if TYPE_CHECKING:
    from ferryman import Job

dsn, history = sys.argv[1], History(Path(sys.argv[2]))
options = json.loads(sys.argv[3])
app = App(dsn)
hooks = HookRegistry()


@app.task
async def work(ctx: WorkerContext, gate: str | None = None, seconds: float = 0) -> None:
    """Run until the gate, a file, exists."""
    run, job = str(uuid.uuid4()), ctx.job
    facts = {"job": job.id, "worker": ctx.worker_id, "run": run, "claim": _claim(job), "queue": job.queue_name}
    history.note("started", **facts)
    sync_points.reach("handler_running")
    if gate is not None:
        await until(Path(gate).exists, "the gate opens")
    await asyncio.sleep(seconds)
    history.note("ended", **facts)


@hooks.on(WorkerStart)
def _ready(event: WorkerStart) -> None:
    history.note("ready", worker=event.worker_id)


@hooks.on(JobComplete)
def _settled(event: JobComplete) -> None:
    history.note("settled", job=event.job.id, worker=event.worker_id, claim=_claim(event.job))


@hooks.on(SettleRefused)
def _refused(event: SettleRefused) -> None:
    history.note("refused", job=event.job_id, worker=event.worker_id)


def _claim(job: Job) -> str:
    return claim_of(job.id, job.locked_by, job.locked_at)


def main() -> None:
    connection.STATEMENT_SECONDS = options["statement_seconds"]
    worker = Worker(
        app,
        concurrency=options["concurrency"],
        poll_interval=timedelta(seconds=options["poll_seconds"]),
        complete_job_batch_delay=timedelta(seconds=options["gather_seconds"]),
        hooks=hooks,
    )
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
