"""Tasks that run in child processes, which find them by importing this module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ferryman import App, WorkerContext
from tests.support.history import History

app = App()


def take_all_memory() -> None:
    """Until there is none."""
    hoard = []
    while True:
        hoard.append(b"x" * 10_000_000)


@app.task(run_in="process")
def hoard_in_a_child(ctx: WorkerContext, history: str, group: str | None = None) -> None:
    """Want more memory than a control group has; without one, end as the kernel would end us."""
    told = History(Path(history))
    told.note("started", job=ctx.job.id)
    told.close()
    if group is None:
        os.kill(os.getpid(), 9)
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
