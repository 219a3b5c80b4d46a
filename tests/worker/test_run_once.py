"""`run_once` runs what is due, leaves everything else as it is, and ends only when that is done or it is told to."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ferryman import JobSpec
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, queues, run_all, worker_of

if TYPE_CHECKING:
    import psycopg
    import pytest

    from ferryman import App, Client


async def test_only_the_task_of_the_job_is_called(app: App, client: Client, connection: psycopg.Connection) -> None:
    called = []

    @app.task
    async def wanted() -> None:
        called.append("wanted")

    @app.task
    async def other() -> None:
        called.append("other")

    await client.add_raw_job("wanted", spec=JobSpec(queue_name="letters"))
    assert [(queue.queue_name, queue.locked_at) for queue in queues(connection)] == [("letters", None)]
    await run_all(app)

    assert (called, jobs(connection)) == (["wanted"], [])
    assert [queue.locked_at for queue in queues(connection)] == [None]


async def test_jobs_without_a_queue_make_none(app: App, client: Client, connection: psycopg.Connection) -> None:
    @app.task
    async def note() -> None:
        pass

    await client.add_raw_job("note")
    await run_all(app)

    assert queues(connection) == []


async def test_locked_exhausted_and_future_jobs_are_left_alone(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    locked, exhausted, later, due = [
        await client.add_raw_job("note", {"number": number}, spec)
        for number, spec in enumerate(
            [JobSpec(), JobSpec(), JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1)), JobSpec()]
        )
    ]
    connection.execute(
        "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'another' where id = %s", [locked.id]
    )
    await client.permanently_fail_jobs([exhausted.id], "enough")
    before = {job.id: job[:-1] for job in jobs(connection)}
    await run_all(app)

    assert ran == [3]
    del before[due.id]
    assert {job.id: job[:-1] for job in jobs(connection)} == before
    assert later.id in before


async def test_a_key_whose_job_is_done_makes_a_new_job(app: App, client: Client) -> None:
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    first = await client.add_raw_job("note", {"number": 1}, JobSpec(job_key="k"))
    await run_all(app)
    second = await client.add_raw_job("note", {"number": 2}, JobSpec(job_key="k"))
    await run_all(app)

    assert ran == [1, 2]
    assert (second.id != first.id, second.revision) == (True, 0)


async def test_trouble_with_the_database_does_not_end_it_early(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    ran = []

    @app.task
    async def note() -> None:
        ran.append(1)

    caplog.set_level("INFO", "ferryman.worker")
    await client.add_raw_job("note")
    connection.execute("alter table graphile_worker._private_jobs rename column run_at to hidden")
    life = asyncio.create_task(run_all(app))
    await until(lambda: logged(caplog, "duty_failed", duty="claiming jobs"), "a claim failed")
    connection.execute("alter table graphile_worker._private_jobs rename column hidden to run_at")
    await asyncio.wait_for(life, 60)

    assert (ran, jobs(connection)) == ([1], [])


async def test_told_to_stop_it_gives_running_jobs_back(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    has_begun = asyncio.Event()

    @app.task
    async def stay() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    await client.add_raw_job("stay")
    worker = worker_of(app, shutdown={"grace_period": timedelta()})
    life = asyncio.create_task(worker.run_once())
    await asyncio.wait_for(has_begun.wait(), 60)
    worker.request_shutdown()
    await asyncio.wait_for(life, 60)

    job = only_job(connection)
    assert (job.attempts, job.locked_at) == (0, None)
    assert job.last_error is not None
