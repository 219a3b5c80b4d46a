"""A schema that is migrated while a worker runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ferryman.errors import IncompatibleSchemaError
from ferryman.hooks import HookRegistry, ShutdownReason, WorkerShutdown
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import jobs, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

ANNOUNCE = """select pg_notify('worker:migrate', '{"migrationNumber":21,"breaking":true}')"""


def migrate(connection: psycopg.Connection, *, breaking: bool) -> None:
    with connection.transaction():
        connection.execute("insert into graphile_worker.migrations (id, breaking) values (21, %s)", [breaking])
        connection.execute(ANNOUNCE)


async def test_a_breaking_migration_ends_the_worker_after_its_jobs(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    reasons: list[ShutdownReason] = []
    hooks = HookRegistry()
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))
    has_begun, worker = asyncio.Event(), worker_of(app, hooks=hooks)

    @app.task
    async def work() -> None:
        has_begun.set()
        migrate(connection, breaking=True)
        await until(lambda: inside(worker).is_stopping, "the worker is told to stop")

    await client.add_job(work.job())

    with pytest.raises(IncompatibleSchemaError, match="breaking revision 21"):
        await asyncio.wait_for(worker.run(), 60)
    assert has_begun.is_set()
    assert jobs(connection) == []
    assert reasons == [ShutdownReason.ERROR]


async def test_a_migration_of_another_schema_or_one_that_breaks_nothing_ends_nobody(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    read_status = type(client).schema_status

    async def counting(self: Client) -> object:
        status = await read_status.__get__(self, type(self))()
        looked.append(status.compatible)
        return status

    monkeypatch.setattr(type(client), "schema_status", counting)

    @app.task
    async def work() -> None: ...

    worker = worker_of(app)
    life = asyncio.create_task(worker.run())
    await client.add_job(work.job())
    await until(lambda: jobs(connection) == [], "the worker works")
    while not looked:  # until the worker listens, nobody hears it
        connection.execute(ANNOUNCE)
        await asyncio.sleep(0.01)
    migrate(connection, breaking=False)
    seen = len(looked)
    await until(lambda: len(looked) > seen, "the worker has looked again")
    await client.add_job(work.job())
    await until(lambda: jobs(connection) == [], "the worker goes on")
    worker.request_shutdown()
    await life

    assert all(looked)
