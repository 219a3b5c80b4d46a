"""Tasks of the worker process that run in child processes, which find them by importing this module."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

from ferryman import App, WorkerContext
from tests.support.claims import claim_of_job
from tests.support.history import History

app = App()


@app.task(run_in="process")
def work_in_child(ctx: WorkerContext, history: str, gate: str | None = None, dies: bool = False) -> None:
    """Run until the gate, a file, exists; or die."""
    told, job = History(Path(history)), ctx.job
    facts = {"job": job.id, "worker": ctx.worker_id, "run": str(uuid.uuid4()), "claim": claim_of_job(job)}
    told.note("started", queue=job.queue_name, **facts)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    while gate is not None and not Path(gate).exists():
        time.sleep(0.005)
    told.note("ended", queue=job.queue_name, **facts)
    told.close()
