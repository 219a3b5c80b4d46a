"""Work leaves nothing behind: what a worker needs does not grow with the jobs that it has run."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec, RawJobSpec
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client


UNDONE = "select exists (select from graphile_worker._private_jobs where locked_at is not null or attempts = 0)"


def needs() -> tuple[int, int, int]:
    """Tasks of the loop, threads, open files."""
    gc.collect()
    return len(asyncio.all_tasks()), threading.active_count(), len([*Path("/proc/self/fd").iterdir()])


async def test_thousands_of_jobs_leave_no_task_thread_or_file_behind(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task
    async def on_the_loop(number: int) -> None:
        if number % 7 == 0:
            raise ValueError("x")

    @app.task
    def in_a_thread(number: int) -> None:
        pass

    async def work(count: int) -> None:
        names = ("on_the_loop", "in_a_thread")
        await client.add_raw_jobs([RawJobSpec(names[number % 2], {"number": number}) for number in range(count)])
        # One question, not thousands of rows each time: the worker shares our loop.
        await until(lambda: connection.execute(UNDONE).fetchone() == (False,), "all have run")

    async with running(worker_of(app, concurrency=8)):
        await work(100)
        before = needs()
        for _ in range(3):
            await work(700)
        # A connection or two more or less have nothing to do with the number of jobs.
        await until(lambda: all(now <= then + 4 for then, now in zip(before, needs(), strict=True)), "it needs no more")


class Large:
    """What a handler holds."""


@pytest.mark.parametrize("place", ["on_the_loop", "in_a_thread"])
async def test_what_a_failed_handler_held_is_given_back_without_a_garbage_collection(
    app: App, client: Client, connection: psycopg.Connection, place: str
) -> None:
    """The next collection may be far away, and the next job may need the memory."""
    held: list[weakref.ref[Large]] = []

    def fail() -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise ValueError("x")

    @app.task
    async def on_the_loop() -> None:
        fail()

    app.task(fail, identifier="in_a_thread")
    async with running(worker_of(app)):
        gc.collect()
        gc.disable()
        try:
            await client.add_raw_job(place, spec=JobSpec(max_attempts=1))
            await until(lambda: only_job(connection).last_error is not None, "the job fails")
            await until(lambda: held[0]() is None, "what it held is gone")
        finally:
            gc.enable()


async def test_without_a_thread_to_spare_one_job_fails_and_the_worker_goes_on(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    @app.task
    def in_a_thread() -> None:
        ran.append(1)

    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name != "ferryman":
            start(self)
            return
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    await client.add_raw_jobs([RawJobSpec("in_a_thread", None)] * 2)
    await run_all(app, concurrency=1)

    [failed] = jobs(connection)
    assert failed.last_error.startswith("RuntimeError: can't start new thread")
    assert (failed.attempts, failed.locked_at, ran) == (1, None, [1])
