"""`ctx.set_progress`: how far a running job is, for whoever looks."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from ferryman import App, WorkerContext
from ferryman.database.timed import TimedDatabase
from ferryman.queries.attempt import prune_progress
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import MINUTES, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from ferryman import Client
    from ferryman.client.reading import JobProgress


async def told(client: Client, connection: psycopg.Connection, job_id: int, fraction: float) -> JobProgress:
    """The progress of the job, once it is so far."""
    question = "select exists (select from graphile_worker._ferryman_progress where job_id = %s and fraction = %s)"
    await until(lambda: connection.execute(question, [job_id, fraction]).fetchone() == (True,), "progress is written")
    progress = await client.get_progress(job_id)
    assert progress is not None
    return progress


def rows(connection: psycopg.Connection) -> int:
    [[count]] = connection.execute("select count(*) from graphile_worker._ferryman_progress").fetchall()
    return int(count)


async def test_progress_can_be_read_while_the_job_runs_and_is_gone_afterwards(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def copy(ctx: WorkerContext) -> None:
        ctx.set_progress(0.25, "a quarter\0 of it")
        await go_on.wait()

    job = await client.add_job(copy.job())
    async with running(worker_of(app)):
        progress = await told(client, connection, job.id, 0.25)
        assert progress.message == "a quarter\N{REPLACEMENT CHARACTER} of it"
        go_on.set()
        await until(lambda: rows(connection) == 0, "the row is gone")
    assert await client.get_progress(job.id) is None


async def test_a_handler_in_a_thread_tells_too(app: App, client: Client, connection: psycopg.Connection) -> None:
    go_on = threading.Event()

    @app.task
    def copy(ctx: WorkerContext) -> None:
        ctx.set_progress(0.5)
        go_on.wait()

    job = await client.add_job(copy.job())
    async with running(worker_of(app)):
        try:
            await told(client, connection, job.id, 0.5)
        finally:
            go_on.set()


async def test_a_task_in_a_child_process_tells_too(
    client: Client, connection: psycopg.Connection, database: str, tmp_path: Path
) -> None:
    app = App(database)
    app.include(process_tasks.app)
    job = await client.add_job(process_tasks.advance.job(path=str(tmp_path / "go on")))
    async with running(worker_of(app)):
        await told(client, connection, job.id, 0.75)
        (tmp_path / "go on").touch()


async def test_only_the_last_of_what_is_told_is_written(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def copy(ctx: WorkerContext) -> None:
        for step in range(1_001):
            ctx.set_progress(step / 1_000)
        await go_on.wait()

    connection.execute(
        "create sequence writes;"
        "create function count_it() returns trigger language plpgsql as"
        " $$ begin perform nextval('public.writes'); return new; end $$;"
        "create trigger count_it before insert or update on graphile_worker._ferryman_progress"
        " for each row execute function count_it()"
    )
    job = await client.add_job(copy.job())
    async with running(worker_of(app)):
        await told(client, connection, job.id, 1.0)
        go_on.set()
    assert connection.execute("select last_value from writes").fetchone() == (1,)


async def test_progress_of_a_job_that_was_taken_away_does_not_count(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def copy(ctx: WorkerContext) -> None:
        ctx.set_progress(0.5)
        await go_on.wait()

    job = await client.add_job(copy.job())
    async with running(worker_of(app)):
        await told(client, connection, job.id, 0.5)
        connection.execute("update graphile_worker._private_jobs set locked_by = 'another'")
        assert await client.get_progress(job.id) is None
        go_on.set()


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_progress_is_a_fraction(app: App, client: Client, fraction: float) -> None:
    @app.task
    async def copy() -> None: ...

    context = WorkerContext(job=await client.add_job(copy.job()), worker_id="ferryman-1")
    with pytest.raises(ValueError, match="progress is a fraction from 0 to 1"):
        context.set_progress(fraction)


async def test_what_dead_workers_have_told_is_pruned(client: Client, connection: psycopg.Connection) -> None:
    connection.execute("insert into graphile_worker._ferryman_progress values (7, 'dead', now(), 0.5, null, now())")
    await TimedDatabase(client.pool, client.schema).fetch(prune_progress())
    assert rows(connection) == 0


@pytest.mark.parametrize("in_a_thread", [False, True], ids=["on the loop", "in a thread"])
async def test_a_job_that_tells_of_its_progress_last_leaves_nothing_behind(
    app: App, client: Client, connection: psycopg.Connection, in_a_thread: bool
) -> None:
    done: list[int] = []

    if in_a_thread:

        @app.task
        def copy(ctx: WorkerContext) -> None:
            done.append(ctx.job.id)
            ctx.set_progress(1.0)

    else:

        @app.task
        async def copy(ctx: WorkerContext) -> None:
            done.append(ctx.job.id)
            ctx.set_progress(1.0)

    await client.add_jobs([copy.job() for _ in range(20)])
    worker = worker_of(app, complete_job_batch_delay=MINUTES)
    async with running(worker):
        await until(lambda: len(done) == 20 and inside(worker).running == [], "all have run")
        await until(lambda: inside(worker).progress == [], "nothing is kept")
    assert rows(connection) == 0
