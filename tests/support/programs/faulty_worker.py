"""The worker process of the crash tests, with more tasks: `python -m tests.support.programs.faulty_worker …`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from ferryman import WorkerContext  # noqa: TC001 - a task is asked for its annotations when it is made
from tests.support.programs import faulty_child_tasks as child_tasks
from tests.support.programs.worker import app, history, main

app.include(child_tasks.app)


@app.task
async def fork_on_the_loop(ctx: WorkerContext, way: str) -> None:
    """Let a forked process come back from the handler in one of these ways."""
    child = os.fork()
    if child == 0:
        match way:
            case "exit":
                sys.exit(3)
            case "raise":
                raise ValueError("from the fork")
            case "await":
                await asyncio.sleep(3600)
            case _:
                return
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    history.note("forked", job=ctx.job.id, way=way, code=os.waitstatus_to_exitcode(status))


@app.task
def start_a_program(ctx: WorkerContext) -> None:
    """Start a program and wait for it."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as program:
        history.note("program", job=ctx.job.id, program=program.pid)


@app.task
def fork_and_stay(ctx: WorkerContext, gate: str) -> None:
    """Leave a forked process behind that has all that the worker has open."""
    child = os.fork()
    if child == 0:
        while not Path(gate).exists():
            time.sleep(0.01)
        os._exit(0)
    history.note("program", job=ctx.job.id, program=child)
    os.waitpid(child, 0)


@app.task
async def hoard(ctx: WorkerContext) -> None:
    """Want more and more memory."""
    history.note("started", job=ctx.job.id)
    child_tasks.take_all_memory()


@app.task
def hoard_in_a_thread(ctx: WorkerContext) -> None:
    """The same in a thread."""
    history.note("started", job=ctx.job.id)
    child_tasks.take_all_memory()


@app.task
def note_in_a_thread(ctx: WorkerContext) -> None:
    """Say that a thread can still do something."""
    history.note("ended", job=ctx.job.id)


if __name__ == "__main__":
    main()
