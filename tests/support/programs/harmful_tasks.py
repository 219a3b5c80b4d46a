"""Tasks that fork, leave, hoard, hold up and kill the worker that runs them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman import WorkerContext  # noqa: TC001 - a task is asked for its annotations when it is made

if TYPE_CHECKING:
    from ferryman import App
    from tests.support.history import History


def add_to(app: App, history: History) -> None:
    """Give these tasks to an application. What they do is told to the history."""
    _add_forking(app, history)
    _add_forking_for_long(app, history)
    _add_hoarding(app, history)
    _add_busy(app, history)
    _add_deadly(app, history)


def _add_forking(app: App, history: History) -> None:
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


def _add_forking_for_long(app: App, history: History) -> None:
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
    def start_a_program(ctx: WorkerContext) -> None:
        """Start a program and wait for it."""
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as program:
            history.note("program", job=ctx.job.id, program=program.pid)


def _add_hoarding(app: App, history: History) -> None:
    @app.task
    async def hoard(ctx: WorkerContext) -> None:
        """Want more and more memory."""
        history.note("started", job=ctx.job.id)
        take_all_memory()

    @app.task
    def hoard_in_a_thread(ctx: WorkerContext) -> None:
        """The same in a thread."""
        history.note("started", job=ctx.job.id)
        take_all_memory()

    @app.task
    def note_in_a_thread(ctx: WorkerContext) -> None:
        """Say that a thread can still do something."""
        history.note("ended", job=ctx.job.id)


def _add_busy(app: App, history: History) -> None:
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


def _add_deadly(app: App, history: History) -> None:
    @app.task
    async def leave(ctx: WorkerContext) -> None:
        """Let a task of the handler's own end the program."""
        history.note("leaving", job=ctx.job.id)

        async def exit_from_below() -> None:
            sys.exit(3)

        below = asyncio.create_task(exit_from_below())
        await asyncio.wait([below])

    @app.task
    async def die(ctx: WorkerContext, ways: list[str]) -> None:
        """End the process, each time in the next of these ways."""
        earlier = len(history.jobs("started", job=ctx.job.id))
        history.note("started", job=ctx.job.id, worker=ctx.worker_id)
        _WAYS_TO_DIE[ways[earlier % len(ways)]]()


def take_all_memory() -> None:
    """Until there is none."""
    hoard = []
    while True:
        hoard.append(b"x" * 10_000_000)


_WAYS_TO_DIE = {
    "segmentation fault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "out of memory": take_all_memory,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}
