"""Tasks of the worker process that run in child processes, which find them by importing this module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from ferryman import App, WorkerContext
from tests.support.history import History, claim_of_job
from tests.support.programs.harmful_tasks import take_all_memory

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


@app.task(run_in="process")
def hoard_in_a_child(ctx: WorkerContext, history: str, group: str | None = None) -> None:
    """Want more memory than a control group has; without one, end as the kernel would end us."""
    told = History(Path(history))
    told.note("started", job=ctx.job.id)
    told.close()
    if group is None:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
        take_all_memory()


@app.task(run_in="process")
def start_a_program_in_a_child(ctx: WorkerContext, history: str) -> None:
    """Start a program and wait for it."""
    told = History(Path(history))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as program:
        told.note("program", job=ctx.job.id, program=program.pid)
    told.close()
