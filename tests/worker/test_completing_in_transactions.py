"""`ctx.complete_in`: a job and what it does are committed together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import create_async_engine

from ferryman import App, JobSpec, WorkerContext
from ferryman.errors import LeaseLostError
from ferryman.hooks import HookRegistry, JobComplete, JobFail, SettleRefused
from ferryman.worker.identity import Identity
from ferryman.worker.settling.writers import FencedWriter
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, queues, run_all, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from ferryman import Client

pytestmark = pytest.mark.claims


@pytest.fixture
def letters(connection: psycopg.Connection) -> None:
    connection.execute("create table letters (job_id bigint)")


def sent(connection: psycopg.Connection) -> list[int]:
    return [job_id for (job_id,) in connection.execute("select job_id from letters")]


def events_of(hooks: HookRegistry) -> list[str]:
    told: list[str] = []
    for kind in (JobComplete, JobFail, SettleRefused):
        hooks.on(kind, lambda event: told.append(type(event).__name__))
    return told


@pytest.mark.usefixtures("letters")
async def test_a_job_is_completed_by_the_commit_of_its_handler(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    @app.task
    async def send(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(database) as mine:
            await mine.execute("insert into letters values (%s)", [ctx.job.id])
            await ctx.complete_in(mine)
            assert len(jobs(connection)) == 1  # nobody else sees it yet

    hooks = HookRegistry()
    told = events_of(hooks)
    job = await client.add_job(send.job(), JobSpec(queue_name="post"))
    await run_all(app, hooks=hooks)

    assert jobs(connection) == []
    assert sent(connection) == [job.id]
    assert queues(connection)[0].locked_at is None
    assert told == ["JobComplete"]


@pytest.mark.usefixtures("letters")
async def test_a_handler_that_raises_before_its_commit_has_done_nothing_and_failed(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    @app.task
    async def send(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(database) as mine:
            await mine.execute("insert into letters values (%s)", [ctx.job.id])
            await ctx.complete_in(mine)
            raise ValueError("the printer is on fire")

    hooks = HookRegistry()
    told = events_of(hooks)
    await client.add_job(send.job(), JobSpec(queue_name="post"))
    await run_all(app, hooks=hooks)

    assert only_job(connection).last_error.startswith("ValueError: the printer is on fire")
    assert (only_job(connection).attempts, only_job(connection).locked_at) == (1, None)
    assert queues(connection)[0].locked_at is None
    assert sent(connection) == []
    assert told == ["JobFail"]


@pytest.mark.usefixtures("letters")
async def test_a_handler_that_raises_after_its_commit_has_done_its_job(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    @app.task
    async def send(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(database) as mine:
            await mine.execute("insert into letters values (%s)", [ctx.job.id])
            await ctx.complete_in(mine)
        raise ValueError("too late")

    hooks = HookRegistry()
    told = events_of(hooks)
    job = await client.add_job(send.job())
    await run_all(app, hooks=hooks)

    assert jobs(connection) == []
    assert sent(connection) == [job.id]
    assert told == ["JobComplete"]


async def test_a_handler_that_returns_after_a_rollback_has_failed(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    @app.task
    async def send(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(database) as mine:
            await ctx.complete_in(mine)
            await mine.rollback()

    await client.add_job(send.job())
    await run_all(app)

    assert only_job(connection).last_error == (
        "the task called complete_in, and returned before that transaction was committed"
    )


async def test_a_job_that_was_given_back_after_a_rollback_has_failed_even_if_another_worker_completes_it_at_once(
    app: App, client: Client, connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def send(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(database) as mine:
            await ctx.complete_in(mine)
            await mine.rollback()

    write = FencedWriter._send

    async def write_and_lose(writer: FencedWriter, *settlements: Any, **options: Any) -> Any:
        written = await write(writer, *settlements, **options)
        connection.execute("delete from graphile_worker._private_jobs where locked_at is null")
        return written

    monkeypatch.setattr(FencedWriter, "_send", write_and_lose)
    hooks = HookRegistry()
    told = events_of(hooks)
    await client.add_job(send.job())
    await run_all(app, hooks=hooks)

    assert jobs(connection) == []
    assert told == ["JobFail"]


@pytest.mark.usefixtures("letters")
async def test_a_handler_that_has_lost_its_job_cannot_complete_it(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    errors: list[LeaseLostError] = []

    @app.task
    async def send(ctx: WorkerContext) -> None:
        connection.execute("update graphile_worker._private_jobs set locked_by = 'another', locked_at = now()")
        try:
            async with await psycopg.AsyncConnection.connect(database) as mine:
                await mine.execute("insert into letters values (%s)", [ctx.job.id])
                await ctx.complete_in(mine)
        except LeaseLostError as error:
            errors.append(error)
            assert ctx.lease_lost
            raise

    hooks = HookRegistry()
    told = events_of(hooks)
    job = await client.add_job(send.job())
    await run_all(app, hooks=hooks)

    assert str(errors[0]) == (
        f"job {job.id} no longer belongs to this worker, so it was not completed. Another attempt may be running. Let "
        "this error roll back your transaction, so that its work is not done twice."
    )
    assert only_job(connection).locked_by == "another"
    assert sent(connection) == []
    assert told == ["SettleRefused"]


async def test_a_blocking_handler_completes_its_job_in_its_own_transaction(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    @app.task
    def send(ctx: WorkerContext) -> None:
        with psycopg.connect(database) as mine:
            ctx.complete_in_blocking(mine)

    await client.add_job(send.job())
    await run_all(app)

    assert jobs(connection) == []


@pytest.mark.parametrize("ends_by", ["commit", "rollback"])
async def test_a_task_in_a_child_process_completes_its_job_in_its_own_transaction(
    client: Client, connection: psycopg.Connection, database: str, ends_by: str
) -> None:
    app = App(database)
    app.include(process_tasks.app)
    await client.add_job(process_tasks.complete.job(dsn=database, ends_by=ends_by))
    hooks = HookRegistry()
    told = events_of(hooks)

    await run_all(app, hooks=hooks)

    assert len(jobs(connection)) == (0 if ends_by == "commit" else 1)
    assert told == ["JobComplete" if ends_by == "commit" else "JobFail"]


async def test_asyncpg_and_sqlalchemy_transactions_take_the_completion_along(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    parts = conninfo_to_dict(database)
    url = sqlalchemy.URL.create(
        "postgresql+psycopg", username=parts["user"], password=parts.get("password"), database=parts["dbname"],
        query={"host": parts["host"], "port": str(parts["port"])},
    )  # fmt: skip

    @app.task
    async def by_asyncpg(ctx: WorkerContext) -> None:
        mine = await asyncpg.connect(
            host=parts["host"], port=int(parts["port"]), user=parts["user"],
            password=parts.get("password"), database=parts["dbname"],
        )  # fmt: skip
        async with mine.transaction():
            await ctx.complete_in(mine)
        await mine.close()

    @app.task
    async def by_sqlalchemy(ctx: WorkerContext) -> None:
        engine = create_async_engine(url)
        async with engine.begin() as mine:
            await ctx.complete_in(mine)
        await engine.dispose()

    await client.add_jobs([by_asyncpg.job(), by_sqlalchemy.job()])
    await run_all(app)

    assert jobs(connection) == []


async def test_a_transaction_that_stays_open_holds_up_no_other_job(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    opened: list[psycopg.AsyncConnection] = []

    @app.task
    async def forget(ctx: WorkerContext) -> None:
        opened.append(await psycopg.AsyncConnection.connect(database))
        await ctx.complete_in(opened[0])

    @app.task
    async def fail() -> None:
        raise ValueError("no")

    await client.add_job(forget.job())
    async with running(worker_of(app)):
        await until(lambda: bool(opened), "the job runs")
        await client.add_job(fail.job())
        await until(lambda: any(job.last_error for job in jobs(connection)), "the other job has failed")
        await opened[0].close()
        await until(lambda: all(job.locked_at is None for job in jobs(connection)), "both are settled")


def test_a_worker_that_starts_over_has_another_name() -> None:
    identity = Identity()
    before = identity.id

    assert before.startswith("ferryman-")
    assert identity.renew() == identity.id != before
