"""Tasks that run in child processes, which find them by importing this module."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg

from ferryman import App, BatchResult, Fail, Retry, Snooze, WorkerContext
from ferryman.retries import FixedDelay
from tests.support.processes import note_pid

app = App()
NEVER = FixedDelay(3600.0)
"""Not within a test, so that each job is tried once."""
in_child = app.task(run_in="process", retry=NEVER)


@in_child
def note(path: str, ctx: WorkerContext) -> None:
    Path(path).write_text(f"{ctx.job.id} {ctx.worker_id} {os.getpid()}")


@in_child
def break_down(text: str) -> None:
    raise ValueError(text)


@in_child
def give_up() -> None:
    raise Fail("no such customer")


@in_child
def rest() -> None:
    raise Snooze(timedelta(minutes=3))


@in_child
def die() -> None:
    os._exit(3)


@app.task(run_in="process", retry=NEVER, on_crash="fail")
def die_once() -> None:
    os._exit(3)


@app.task(run_in="process", retry=NEVER, on_crash="requeue")
def die_and_come_back() -> None:
    os._exit(3)


@app.task(run_in="process", retry=NEVER, timeout=timedelta(milliseconds=300))
def dawdle() -> None:
    time.sleep(60)


@in_child
def begin(path: str) -> None:
    note_pid(path)
    time.sleep(60)


@app.task(run_in="process", retry=NEVER, batch=True)
def halve(items: list[int]) -> BatchResult:
    return BatchResult.of_items([None if item % 2 == 0 else ValueError("odd") for item in items])


@in_child
def complete(ctx: WorkerContext, dsn: str, ends_by: str) -> None:
    with psycopg.connect(dsn) as mine:
        ctx.complete_in_blocking(mine)
        if ends_by == "rollback":
            mine.rollback()


@in_child
def advance(ctx: WorkerContext, path: str) -> None:
    ctx.set_progress(0.75, "nearly there")
    while not Path(path).exists():
        time.sleep(0.01)


@in_child
def log(ctx: WorkerContext) -> None:
    ctx.logger.info("half of %s", "it")
    ctx.logger.debug("nobody wants to know")


@in_child
def complete_later(ctx: WorkerContext, dsn: str, begun: str, go_on: str) -> None:
    Path(begun).touch()
    while not Path(go_on).exists():
        time.sleep(0.01)
    with psycopg.connect(dsn) as mine:
        ctx.complete_in_blocking(mine)


class CodedError(Exception):
    """Takes more than its text, as many libraries' errors do."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@in_child
def give_up_at_length(size: int) -> None:
    raise Fail("x" * size)


@in_child
def ask_for_more(size: int) -> None:
    raise Retry("again", after=timedelta(minutes=7), payload={"size": 0, "text": "y" * size})


@in_child
def rest_oddly() -> None:
    snooze = Snooze(timedelta(minutes=3))
    snooze.handle = lambda: None  # type: ignore[attr-defined]
    raise snooze


@app.task(run_in="process", retry=NEVER, batch=True)
def some_fail(items: list[int]) -> list[Exception | None]:
    return [CodedError(item, "no such item") if item else None for item in items]


def after_its_code(_: int, error: BaseException) -> timedelta:
    return timedelta(seconds=error.code if isinstance(error, CodedError) else 1)


@app.task(run_in="process", retry=after_its_code)
def fail_with_a_code(code: int) -> None:
    raise CodedError(code, "busy")


@app.task(identifier="fail_with_a_code_class", run_in="process", retry=after_its_code)
@dataclass
class FailWithACode:
    code: int

    def run(self) -> None:
        raise CodedError(self.code, "busy")


class Hostile:
    """Runs code in whoever unpickles it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path(self._path),)  # type: ignore[return-value]


@in_child
def return_something_hostile(path: str) -> object:
    return Hostile(path)


@in_child
def raise_something_hostile(path: str) -> None:
    raise ValueError(Hostile(path))


def channels() -> list[int]:
    """The sockets of this child: that of its worker."""
    found = [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [number for number in found if stat.S_ISSOCK(os.fstat(number).st_mode)]


@in_child
def speak_out_of_turn(message: str) -> None:
    """Write to the channel of the worker, as code that was broken into would."""
    for number in channels():
        os.write(number, struct.pack("!Q", len(message)) + message.encode())
    time.sleep(60)


@in_child
def announce_too_much() -> None:
    """Say that a message of 800 MB follows."""
    for number in channels():
        os.write(number, struct.pack("!Q", 800_000_000))
    time.sleep(60)


@in_child
def return_much(size: int) -> str:
    return "z" * size


def details(ctx: WorkerContext) -> dict[str, object]:
    return {"task": ctx.task.identifier, "schema": ctx.schema, "use_local_time": ctx.use_local_time}


@in_child(aliases=["look_in_process"])
def look_in_child(count: int, ctx: WorkerContext) -> None:
    ctx.sync_client.add_raw_job("elsewhere", details(ctx))


@in_child
def add_more(count: int, ctx: WorkerContext) -> None:
    for number in range(count):
        ctx.sync_client.add_raw_job("elsewhere", {"number": number})


@in_child
async def add_more_later(count: int, ctx: WorkerContext) -> None:
    assert ctx.client is not None
    await asyncio.gather(*(ctx.client.add_raw_job("elsewhere", {"number": number}) for number in range(count)))


@app.task(
    run_in="process",
    aliases=["write_down"],
    upgrade=lambda payload: {"path": payload.pop("place", None), "text": payload.pop("words", None)} | payload,
)
def write(path: str, text: str) -> None:
    Path(path).write_text(text)


@in_child
def enqueue_more(numbers: list[int]) -> None:
    """Without a context, and once from an event loop of its own."""
    for number in numbers:
        counted.enqueue_sync(number=number)
        asyncio.run(counted.enqueue(number=number))


@in_child
async def enqueue_more_later(numbers: list[int]) -> None:
    for number in numbers:
        await counted.enqueue(number=number)
        counted.enqueue_sync(number=number)


@app.task
def counted(number: int) -> None:
    raise NotImplementedError
