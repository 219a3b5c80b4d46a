"""Handlers change the queue that they are run from, through the client in their context."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import App, JobSpec, RawJobSpec, RescheduleJobOptions, SyncClient, WorkerContext
from ferryman.hooks import BeforeJobSchedule, Continue, HookRegistry
from tests.support.waiting import until
from tests.support.workers import jobs, queues, run_all, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg

    from ferryman import Client

LATER = JobSpec(run_at=datetime(2100, 1, 1, tzinfo=UTC))


def doing(app: App, do: Callable[[Client], Awaitable[object]]) -> list[object]:
    """Define a task, `do`, that does this with its client; the list holds what came back."""
    answers: list[object] = []

    @app.task(identifier="do")
    async def _do(ctx: WorkerContext) -> None:
        assert ctx.client is not None
        answers.append(await do(ctx.client))

    return answers


async def test_jobs_that_a_handler_adds_are_run_too(app: App, client: Client, connection: psycopg.Connection) -> None:
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    async def add(inner: Client) -> None:
        await inner.add_job(note.job(number=1))
        await inner.add_raw_job("note", {"number": 2})
        await inner.add_jobs([note.job(number=3), note.job(number=4)])
        await inner.add_raw_jobs([RawJobSpec("note", {"number": 5}), RawJobSpec("note", {"number": 6})])

    doing(app, add)
    await client.add_raw_job("do")
    await run_all(app)

    assert (sorted(ran), jobs(connection)) == ([1, 2, 3, 4, 5, 6], [])


@pytest.mark.parametrize("task", ["look", "look_blocking", "look_in_child"])
@pytest.mark.parametrize("use_local_time", [True, False])
async def test_the_context_has_the_task_the_worker_and_a_client_with_its_schema_and_its_clock(
    database: str, task: str, use_local_time: bool
) -> None:
    """On the event loop, in a thread, and in a child process."""
    app = App(database, schema="elsewhere")
    app.include(process_tasks.app)
    seen: list[tuple[str | None, ...]] = []

    def note(ctx: WorkerContext) -> None:
        seen.append((ctx.worker_id, ctx.job.locked_by, ctx.job.task_identifier))

    @app.task
    async def look(count: int, ctx: WorkerContext) -> None:
        assert ctx.client is not None
        await ctx.client.add_raw_job("elsewhere", process_tasks.details(ctx))
        note(ctx)

    @app.task
    def look_blocking(count: int, ctx: WorkerContext) -> None:
        ctx.sync_client.add_raw_job("elsewhere", process_tasks.details(ctx))
        note(ctx)

    async with app.client() as client:
        await client.migrate()
        await client.add_raw_job(task, {"count": 1})
        worker = worker_of(app, use_local_time=use_local_time)
        await worker.run_once()
        [added] = (await client.list_jobs()).jobs

    assert (added.task_identifier, added.run_at != added.created_at) == ("elsewhere", use_local_time)
    assert added.payload == {"task": task, "schema": "elsewhere", "use_local_time": use_local_time}
    assert seen == [(worker.worker_id, worker.worker_id, task)] * (task != "look_in_child")


async def test_a_plain_handler_adds_instances_of_task_classes(app: App, client: Client) -> None:
    @app.task
    @dataclass
    class Greet:
        name: str

        def run(self) -> None: ...

    @app.task
    def add(ctx: WorkerContext) -> None:
        ctx.sync_client.add_job(Greet("Ann"), LATER)

    await client.add_raw_job("add")
    await run_all(app)

    [added] = (await client.list_jobs()).jobs
    assert (added.task_identifier, added.payload) == ("greet", {"name": "Ann"})


async def test_batches_that_a_handler_adds_are_lists(app: App, client: Client, connection: psycopg.Connection) -> None:
    doing(app, lambda inner: inner.add_batch_job("elsewhere", [{"n": 1}, {"n": 2}]))
    await client.add_raw_job("do")
    await run_all(app)

    assert [job.payload for job in jobs(connection)] == [[{"n": 1}, {"n": 2}]]


CHANGES: dict[str, tuple[Callable[[Client, int], Awaitable[object]], list[tuple[int, int, str | None]]]] = {
    "completed": (lambda inner, job: inner.complete_jobs([job]), []),
    "failed": (lambda inner, job: inner.permanently_fail_jobs([job], "no"), [(25, 0, "no")]),
    "rescheduled": (
        lambda inner, job: inner.reschedule_jobs([job], RescheduleJobOptions(priority=5, attempts=1)),
        [(1, 5, None)],
    ),
    "removed": (lambda inner, job: inner.remove_job("k"), []),
    "cleaned": (lambda inner, job: inner.cleanup(), [(0, 0, None)]),
    "migrated": (lambda inner, job: inner.migrate(), [(0, 0, None)]),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_handler_changes_other_jobs(
    app: App, client: Client, connection: psycopg.Connection, change: str
) -> None:
    call, left = CHANGES[change]
    other = await client.add_raw_job("elsewhere", spec=JobSpec(job_key="k", run_at=LATER.run_at))
    doing(app, lambda inner: call(inner, other.id))
    await client.add_raw_job("do")
    await run_all(app)

    assert [(job.attempts, job.priority, job.last_error) for job in jobs(connection)] == left


async def test_a_handler_frees_what_a_dead_worker_held(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("elsewhere", spec=JobSpec(queue_name="letters"))
    for table in ("jobs", "job_queues"):
        connection.execute(f"update graphile_worker._private_{table} set locked_by = 'dead', locked_at = now()")
    doing(app, lambda inner: inner.force_unlock_workers(["dead"]))
    await client.add_raw_job("do")
    await run_all(app)

    assert [job.locked_at for job in jobs(connection)] == [None]
    assert [queue.locked_at for queue in queues(connection)] == [None]


async def test_a_clean_up_inside_a_handler_leaves_idle_tasks_runnable(app: App, client: Client) -> None:
    ran = []

    @app.task
    async def idle() -> None:
        ran.append(1)

    async def clean_then_add(inner: Client) -> None:
        await inner.cleanup()
        await inner.add_raw_job("idle", spec=JobSpec(run_at=datetime.now(UTC) - timedelta(seconds=1)))

    doing(app, clean_then_add)
    await client.add_raw_job("do")
    await run_all(app)

    assert ran == [1]


async def test_a_plain_function_adds_jobs_by_calling_the_client_of_its_context(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    seen = []

    @app.task
    def add(ctx: WorkerContext) -> None:
        seen.append(ctx.client)
        job = ctx.client.add_raw_job("elsewhere", {"number": 1})
        seen.append(ctx.sync_client.get_job(job.id))
        assert ctx.sync_client is ctx.client

    await client.add_raw_jobs([RawJobSpec("add", {}) for _ in range(3)])
    await run_all(app)

    assert [job.payload for job in jobs(connection)] == [{"number": 1}] * 3
    assert isinstance(seen[0], SyncClient)
    assert len({id(each) for each in seen if isinstance(each, SyncClient)}) == 1, "one for all jobs"
    await until(lambda: others(connection) == 1, "its connections are closed, and those of the test's client stay")


async def test_the_blocking_client_of_a_handler_is_opened_when_it_is_first_used(app: App, client: Client) -> None:
    seen = []

    @app.task
    def look(ctx: WorkerContext) -> None:
        seen.append(ctx.sync_client._pool)

    await client.add_raw_job("look")
    await run_all(app)

    assert seen == [None]


async def test_jobs_that_a_plain_function_adds_pass_async_hooks(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks = HookRegistry()

    @hooks.on(BeforeJobSchedule)
    async def change(event: BeforeJobSchedule) -> Continue:
        await asyncio.sleep(0)
        return Continue({"changed": event.payload["number"]})

    @app.task
    def add(ctx: WorkerContext) -> None:
        ctx.sync_client.add_raw_job("elsewhere", {"number": 1})

    await client.add_raw_job("add", {})
    await run_all(app, hooks=hooks)

    assert [job.payload for job in jobs(connection)] == [{"changed": 1}]


async def test_a_plain_wrapper_of_an_async_function_keeps_the_async_client(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    async def inner(ctx: WorkerContext) -> None:
        assert ctx.client is not None
        await ctx.client.add_raw_job("elsewhere")

    @app.task(identifier="outer")
    @functools.wraps(inner)
    def outer(ctx: WorkerContext) -> Awaitable[None]:
        return inner(ctx)

    await client.add_raw_job("outer", {})
    await run_all(app)

    assert [job.task_id for job in jobs(connection)] != []
    assert [job.last_error for job in jobs(connection)] == [None]


async def test_an_async_handler_that_asks_for_the_blocking_client_is_told_what_to_do(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task(max_attempts=1)
    async def mistaken(ctx: WorkerContext) -> None:
        ctx.sync_client.add_raw_job("elsewhere")

    await client.add_raw_job("mistaken", {})
    await run_all(app)

    [job] = jobs(connection)
    assert "TaskError: ctx.sync_client is for plain `def` handlers" in job.last_error


@pytest.mark.parametrize("task", ["add_more", "add_more_later"])
async def test_a_handler_in_a_child_process_adds_jobs_over_a_connection_of_its_own(
    database: str, client: Client, connection: psycopg.Connection, task: str
) -> None:
    app = App(database)
    app.include(process_tasks.app)
    for _ in range(2):
        await client.add_raw_job(task, {"count": 2})
    await run_all(app, concurrency=1)

    # Added side by side over two connections, so their order is not given.
    added = sorted((job.payload["number"], job.last_error is None) for job in jobs(connection))
    assert added == [(0, True), (0, True), (1, True), (1, True)]
    await until(lambda: others(connection) == 1, "its connection is closed")


def others(connection: psycopg.Connection) -> int:
    """How many connections there are beside this one."""
    [(count,)] = connection.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and backend_type = 'client backend'"
    )
    return count
