"""Tasks for child processes. Those that never end say so first, by writing their pid to a file."""

from __future__ import annotations

import asyncio
import ctypes
import enum
import gc
import itertools
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ferryman import App, WorkerContext
from tests.support.processes import note_pid

app = App()


class Level(enum.IntEnum):
    HIGH = 3


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


class Unloggable:
    """Has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@app.task
def log_all_sorts() -> bool:
    """Log in ways that are hard to carry; say whether anybody wants to know details."""
    logger = logging.getLogger("tests.children")
    logger.warning("%d %s", 1, "one", extra={"job_id": 7, "level": Level.HIGH, "handle": print, "odd": Unloggable()})
    try:
        {}["key"]
    except KeyError:
        logger.exception("no such key", stack_info=True)
    logging.getLogger("tests.quiet").warning("not wanted")
    logger.debug("only for those who look closely")
    return logger.isEnabledFor(logging.DEBUG)


@app.task
def log_and_die(count: int, path: str) -> None:
    for number in range(count):
        logging.getLogger("tests.children").warning("%d", number)
    Path(path).touch()
    os._exit(3)


@app.task
def log_much(count: int) -> str:
    """From two threads, and from finalizers that come in between."""

    class Finalized:
        def __del__(self) -> None:
            logging.getLogger("tests.finalizers").warning("gone")

    def work(name: str) -> None:
        logger = logging.getLogger(f"tests.{name}")
        for number in range(count):
            garbage = Finalized()
            garbage.itself = garbage  # type: ignore[attr-defined]
            del garbage
            logger.warning("%d", number)

    gc.set_threshold(5)
    thread = threading.Thread(target=work, args=("thread",))
    thread.start()
    work("main")
    thread.join()
    return "done"


@app.task
def log_in_a_fork() -> None:
    pid = os.fork()
    if pid == 0:
        logging.getLogger("tests.children").warning("from a fork")
        os._exit(0)
    os.waitpid(pid, 0)


@app.task
def log_for_ever(note: str) -> None:
    note_pid(note)
    while True:
        logging.getLogger("tests.children").warning("again")


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


@dataclass
class Model:
    at: datetime
    many: list[int]
    name: str


@app.task
def return_a_model() -> Model:
    return Model(datetime(2026, 1, 1, tzinfo=UTC), [1, 2**80], "résumé")


@app.task
def repeated(text: str, count: int) -> str:
    return text * count


kept = bytearray()


@app.task
def keep(size: int) -> None:
    """Leak memory."""
    kept.extend(b"x" * size)


@app.task
def segfault() -> None:
    ctypes.string_at(0)


@app.task
def exit_hard(code: int) -> None:
    os._exit(code)


@app.task
def loop_in_c(note: str) -> None:
    """Never let go of the interpreter's lock, so that no Python code runs any more."""
    note_pid(note)
    deque(itertools.repeat(0), maxlen=0)


@app.task
def wait_for(note: str, until: str) -> str:
    """Run until a file appears."""
    note_pid(note)
    while not Path(until).exists():
        time.sleep(0.005)
    return note


@app.task
async def wait_politely(note: str, tidied: str) -> None:
    """Run until cancelled, and tidy up then."""
    try:
        note_pid(note)
        await asyncio.sleep(3600)
    finally:
        note_pid(tidied)


@app.task
def start_a_program(note: str) -> None:
    with subprocess.Popen(["sleep", "3600"]) as program:
        note_pid(note, program.pid)


@app.task
def crash_with_a_fork(note: str) -> None:
    """End, and leave a forked process behind that holds everything open that this one had open."""
    if os.fork() == 0:
        os.setsid()
        note_pid(note)
        time.sleep(3600)
    while not Path(note).exists():
        time.sleep(0.005)
    os._exit(5)
