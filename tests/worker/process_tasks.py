"""Tasks that run in child processes, which find them by importing this module."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import psycopg

from ferryman import App, BatchResult, Fail, Snooze, WorkerContext
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
