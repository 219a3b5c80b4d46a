"""Where handlers run: on the loop, in threads, in child processes; and what a timeout does there."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, RawJobSpec, WorkerContext
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, run_all, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from ferryman import Client


@pytest.fixture
def app(database: str) -> App:
    made = App(database)
    made.include(process_tasks.app)
    return made


async def test_async_functions_run_on_the_loop_and_plain_ones_in_threads(app: App, client: Client) -> None:
    threads = {}

    @app.task
    async def on_the_loop() -> None:
        threads["loop"] = threading.current_thread()

    @app.task
    def in_a_thread() -> None:
        threads["thread"] = threading.current_thread()

    await client.add_raw_jobs([RawJobSpec("on_the_loop", None), RawJobSpec("in_a_thread", None)])
    await run_all(app)

    assert threads["loop"] is threading.current_thread()
    assert threads["thread"] is not threading.current_thread()


async def test_blocking_handlers_run_side_by_side(app: App, client: Client) -> None:
    together = threading.Barrier(3)

    @app.task
    def meet() -> None:
        together.wait(20)

    await client.add_raw_jobs([RawJobSpec("meet", None)] * 3)
    await run_all(app, concurrency=3)

    assert not together.broken


async def test_task_classes_and_contexts_work_as_handlers(app: App, client: Client, connection) -> None:
    seen: dict[str, Any] = {}

    @app.task
    @dataclass
    class SendLetter:
        to: str

        async def run(self, ctx: WorkerContext) -> None:
            seen.update(to=self.to, job=ctx.job, extension=ctx.extensions["name"])
            await ctx.client.add_raw_job("somebody_elses")

    added = await client.add_raw_job("send_letter", {"to": "a@b.c"})
    await run_all(app, extensions={"name": "value"})

    assert (seen["to"], seen["extension"]) == ("a@b.c", "value")
    assert (seen["job"].id, seen["job"].attempts) == (added.id, 1)
    assert only_job(connection).id > added.id


@pytest.mark.parametrize("is_async", [True, False], ids=["loop", "thread"])
async def test_an_attempt_that_takes_too_long_fails(
    app: App, client: Client, connection: psycopg.Connection, is_async: bool
) -> None:
    end = threading.Event()
    decorate = app.task(identifier="slow", timeout=timedelta(milliseconds=50))
    if is_async:

        @decorate
        async def slow() -> None:
            await asyncio.Event().wait()
    else:

        @decorate
        def slow() -> None:
            end.wait(120)

    await client.add_raw_job("slow")
    await run_all(app)
    end.set()

    job = only_job(connection)
    assert job.last_error == "TimeoutError: the attempt took longer than 0.05 s"
    assert (job.attempts, job.locked_at) == (1, None)


async def test_threads_that_outlive_their_timeout_do_not_keep_others_waiting(app: App, client: Client) -> None:
    end, ran = threading.Event(), []

    @app.task(timeout=timedelta(milliseconds=50))
    def slow() -> None:
        end.wait(120)

    @app.task
    def quick() -> None:
        ran.append(threading.current_thread())

    await client.add_raw_jobs([RawJobSpec("slow", None), RawJobSpec("slow", None)])
    await client.add_raw_jobs([RawJobSpec("quick", None), RawJobSpec("quick", None)])
    await asyncio.wait_for(run_all(app, concurrency=1), 60)
    end.set()

    assert len(ran) == 2
    assert ran[0] is ran[1]
    await until(lambda: not ran[0].is_alive(), "the thread ends with the worker")


async def test_a_timeout_of_the_handlers_own_is_told_as_such(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task(timeout=timedelta(minutes=1))
    async def ask() -> None:
        raise TimeoutError("the mail server did not answer")

    await client.add_raw_job("ask")
    await run_all(app)

    assert only_job(connection).last_error.startswith("TimeoutError: the mail server did not answer")


async def test_a_child_process_runs_the_job(
    app: App, client: Client, connection: psycopg.Connection, tmp_path: Path
) -> None:
    worker = worker_of(app)
    added = await client.add_raw_job("note", {"path": str(tmp_path / "note")})
    await worker.run_once()

    job_id, worker_id, pid = (tmp_path / "note").read_text().split()
    assert (int(job_id), worker_id) == (added.id, worker.worker_id)
    assert int(pid) != os.getpid()
    assert jobs(connection) == []


async def test_whatever_happens_in_a_child_process_ends_one_job(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(
        [
            RawJobSpec("break_down", {"text": "no such address"}),
            RawJobSpec("give_up", None),
            RawJobSpec("rest", None),
            RawJobSpec("die", None),
            RawJobSpec("dawdle", None),
            RawJobSpec("halve", [1, 2, 3]),
        ]
    )
    await run_all(app, concurrency=6)

    failed, given_up, resting, crashed, late, halved = jobs(connection)
    assert failed.last_error.startswith("ValueError: no such address\n\nTraceback")
    assert (given_up.last_error, given_up.attempts) == ("Fail: no such customer", 25)
    assert (resting.last_error, resting.attempts, resting.due_in > 170) == (None, 0, True)
    assert crashed.last_error.startswith("WorkerCrashed: ")
    assert "0.3 s" in late.last_error
    assert (halved.payload, halved.last_error.startswith("2 batch item(s) failed: 0: ValueError: odd")) == (
        [1, 3],
        True,
    )
    assert [job.attempts for job in (failed, crashed, late, halved)] == [1, 1, 1, 1]
    assert {job.locked_at for job in jobs(connection)} == {None}


async def test_a_child_process_is_stopped_when_the_worker_ends(
    app: App, client: Client, connection: psycopg.Connection, tmp_path: Path
) -> None:
    await client.add_raw_job("begin", {"path": str(tmp_path / "begun")})

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await until((tmp_path / "begun").exists, "the job runs")

    assert (only_job(connection).attempts, only_job(connection).locked_at) == (0, None)
