"""`task.enqueue(…)` inside a job: the clients of the worker that runs it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from ferryman import App, LocalQueueConfig
from ferryman.hooks import BeforeJobSchedule, Continue, HookRegistry
from tests.support.waiting import until
from tests.support.workers import jobs, run_all, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    import psycopg

    from ferryman import Client

NOWHERE = "postgresql://nowhere.invalid/"


@pytest.mark.parametrize("ahead", [False, True])
async def test_handlers_add_jobs_with_the_clients_of_their_worker_and_its_hooks(
    database: str, client: Client, connection: psycopg.Connection, ahead: bool
) -> None:
    """Many at once, so that jobs are started by the ends of others, in threads and on the loop."""
    app, hooks = App(make_conninfo(database, application_name="shared")), HookRegistry()
    hooks.on(BeforeJobSchedule, lambda event: Continue({**event.payload, "asked": True}))

    @app.task(flags=["later"])
    def counted(number: int, asked: bool = False) -> None: ...

    @app.task
    async def on_loop(number: int) -> None:
        await asyncio.sleep(0)
        await counted.options(flags=["later"]).enqueue(number=number)

    @app.task
    def in_thread(number: int) -> None:
        counted.options(flags=["later"]).enqueue_sync(number=number)

    for number in range(10):
        await client.add_job(on_loop.job(number=number))
        await client.add_job(in_thread.job(number=number))
    options: dict[str, Any] = {"local_queue": LocalQueueConfig(size=5)} if ahead else {}
    async with running(worker_of(app, hooks=hooks, concurrency=3, forbidden_flags=["later"], **options)):
        await until(lambda: len(jobs(connection)) == 20 and jobs(connection)[0].flags, "all have added a job")

    added = [job.payload for job in jobs(connection)]
    assert sorted(payload["number"] for payload in added) == sorted([*range(10)] * 2)
    assert all(payload["asked"] for payload in added)
    assert app.clients._of_loop == {}
    assert app.clients._blocking is None, "the application has opened nothing of its own"


async def test_a_handler_with_an_event_loop_of_its_own_reaches_the_queue_of_its_worker(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task(flags=["later"])
    def counted(number: int) -> None: ...

    @app.task
    def in_thread() -> None:
        asyncio.run(counted.enqueue(number=1))

    await client.add_job(in_thread.job())
    worker_app = App(NOWHERE)
    worker_app.include(app)
    worker_app.settings = app.settings  # as `ferryman worker --database-url` does
    await run_all(worker_app, forbidden_flags=["later"])

    assert [job.payload for job in jobs(connection)] == [{"number": 1}]


async def test_tasks_in_child_processes_add_jobs_to_the_queue_that_they_come_from(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    app.include(process_tasks.app)

    await client.add_raw_job("enqueue_more", {"numbers": [1, 2]})
    await client.add_raw_job("enqueue_more_later", {"numbers": [3]})
    await run_all(app, not_tasks=["counted"], concurrency=1)

    assert sorted(job.payload["number"] for job in jobs(connection)) == [1, 1, 2, 2, 3, 3]


async def test_a_task_of_another_application_goes_to_that_applications_queue(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    other = App(make_conninfo(database, application_name="other"))
    elsewhere = other.task(lambda: None, identifier="elsewhere")
    seen: list[str] = []

    @app.task
    async def on_loop() -> None:
        await elsewhere.enqueue()
        names = connection.execute(
            "select application_name from pg_stat_activity where datname = current_database()"
        ).fetchall()
        seen.extend(name for (name,) in names if name == "other")

    await client.add_job(on_loop.job())
    await run_all(app)
    other.close()

    assert seen == ["other"]
    assert len(jobs(connection)) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_what_outlives_a_worker_or_is_forked_by_a_handler_uses_the_applications_own_clients(
    database: str, client: Client, connection: psycopg.Connection
) -> None:
    app = App(make_conninfo(database, application_name="own"))
    app.task(lambda: None, identifier="counted", flags=["later"])
    counted = app.tasks["counted"]
    left: list[asyncio.Task[Any]] = []
    go = asyncio.Event()

    async def linger() -> None:
        await go.wait()
        await counted.enqueue()

    @app.task
    async def on_loop() -> None:
        left.append(asyncio.create_task(linger()))

    @app.task
    def forking() -> None:
        child = os.fork()
        if child == 0:
            try:
                counted.enqueue_sync()
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    hooks = HookRegistry()
    hooks.on(BeforeJobSchedule, lambda event: None)  # would be asked on an event loop that no child has
    await client.add_job(on_loop.job())
    await client.add_job(forking.job())
    await run_all(app, forbidden_flags=["later"], hooks=hooks)
    assert len(jobs(connection)) == 1
    go.set()
    await left[0]
    app.close()

    assert len(jobs(connection)) == 2
