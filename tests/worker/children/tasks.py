"""Tasks for child processes. Those that never end say so first, by writing their pid to a file."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ferryman import App, WorkerContext

app = App()


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@app.task
@dataclass
class Multiply:
    a: int
    b: int

    async def run(self, ctx: WorkerContext) -> dict[str, object]:
        return {"product": self.a * self.b, "job": ctx.job.id, "worker": ctx.worker_id}


def plain(a: int) -> int:
    return -a


plain_task = app.task(plain)


@app.task
def own_pid() -> int:
    return os.getpid()


@app.task
def doubled(text: str) -> str:
    return text + text


@app.task
def say(text: str) -> None:
    print(text)  # noqa: T201 - what is tested


@app.task
def open_files() -> list[str]:
    return [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


@app.task
def fail(text: str) -> None:
    raise LookupError(text)


@app.task
async def fail_later(text: str) -> None:
    raise LookupError(text)


class StubbornError(Exception):
    """Neither its text nor its pickled form can be made."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.handle = lambda: second

    def __str__(self) -> str:
        raise ValueError("no text")


@app.task
def fail_stubbornly() -> None:
    raise StubbornError("a", "b")


@app.task
def leave() -> None:
    sys.exit(3)


@app.task
def interrupt() -> None:
    raise KeyboardInterrupt


@app.task
def return_a_lambda() -> object:
    return lambda: None


class OnlyHere:
    """Can be pickled in a child and not be read by its worker."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1 / 0",)


@app.task
def return_the_unreadable() -> object:
    return OnlyHere()


@app.task
def segfault() -> None:
    ctypes.string_at(0)


@app.task
def exit_hard(code: int) -> None:
    os._exit(code)


@app.task
def loop_in_c(note: str) -> None:
    """Never let go of the interpreter's lock, so that no Python code runs any more."""
    _note(note)
    deque(itertools.repeat(0), maxlen=0)


@app.task
def wait_for(note: str, until: str) -> str:
    """Run until a file appears."""
    _note(note)
    while not Path(until).exists():
        time.sleep(0.005)
    return note


@app.task
async def wait_politely(note: str, tidied: str) -> None:
    """Run until cancelled, and tidy up then."""
    try:
        _note(note)
        await asyncio.sleep(3600)
    finally:
        _note(tidied)


@app.task
def start_a_program(note: str) -> None:
    with subprocess.Popen(["sleep", "3600"]) as program:
        _note(note, program.pid)


@app.task
def crash_with_a_fork(note: str) -> None:
    """End, and leave a forked process behind that holds everything open that this one had open."""
    if os.fork() == 0:
        os.setsid()
        _note(note)
        time.sleep(3600)
    while not Path(note).exists():
        time.sleep(0.005)
    os._exit(5)


def _note(note: str, pid: int | None = None) -> None:
    """Write a pid in one step: a reader finds the whole of it or nothing."""
    draft = Path(f"{note}.draft")
    draft.write_text(str(os.getpid() if pid is None else pid))
    draft.rename(note)
