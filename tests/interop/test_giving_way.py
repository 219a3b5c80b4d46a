"""Node 0.16 or 0.17, then Ferryman, then a Rust worker: `give_way` makes room for what Rust's revision 20 makes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.errors import DuplicateTable

from ferryman import App, Client, LocalQueueConfig, SyncClient
from ferryman.database.steps import Transaction
from ferryman.errors import IncompatibleSchemaError, SchemaError, SchemaMissingError
from ferryman.schema import (
    LATEST_EXTENSION,
    GivingWay,
    Layout,
    MigrationOutcome,
    give_way,
    inspect,
    migrate,
    migrate_for_work,
    uninstall_extensions,
)
from ferryman.schema.extensions import SHARED
from ferryman.schema.refusals import GivenWayError
from tests.support.carrying import carry_out, watched
from tests.support.catalogue import OURS, catalogue
from tests.support.inside import inside
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.rust_migrations import migrate_as_rust
from tests.support.tables import Tables
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.steps import Step

    NodeDatabase = Callable[[str], str]

COPIES = tuple(reversed(SHARED.parts))
OURS_ALONE = set(OURS) - set(COPIES)


@pytest.fixture
def adopted(node_database: NodeDatabase) -> str:
    dsn = node_database("0.16")
    carry_out(dsn, migrate)
    return dsn


def has_waited_with(caplog: pytest.LogCaptureFixture) -> bool:
    return any(getattr(record, "event", None) == "schema_awaited" for record in caplog.records)


def objects(dsn: str) -> list[str]:
    """The catalogue, without the triggers of foreign keys, which are named by numbers."""
    return [line for line in catalogue(dsn, with_bodies=True) if "RI_ConstraintTrigger" not in line]


@pytest.mark.parametrize("version", ["0.16", "0.17"])
def test_rust_can_migrate_what_we_adopted_once_we_have_given_way(node_database: NodeDatabase, version: str) -> None:
    dsn, without_us = node_database(version), node_database(version)
    carry_out(dsn, migrate)
    with pytest.raises(DuplicateTable):
        migrate_as_rust(dsn)
    # From 18 it has left its own 19 behind, and would fail like this for ever.
    assert ["give-way" in warning for warning in carry_out(dsn, inspect).warnings] == [True] * (version == "0.16")

    assert carry_out(dsn, give_way) == GivingWay(dropped=COPIES)
    assert carry_out(dsn, inspect).warnings == ()
    migrate_as_rust(dsn)
    migrate_as_rust(without_us)
    for work in (migrate_for_work, migrate):
        assert carry_out(dsn, work).outcome is MigrationOutcome.NOTHING
    status = carry_out(dsn, inspect)
    assert (status.layout, status.revision, status.compatible, status.warnings) == (Layout.RUST, 22, True, ())

    # Its objects are its own: we neither give them away nor take them along.
    assert "has no _private_workers that Ferryman made" in carry_out(dsn, give_way).note
    assert set(carry_out(dsn, uninstall_extensions).dropped) == OURS_ALONE
    assert objects(dsn) == objects(without_us)


def test_until_rust_has_come_our_workers_do_not_start_and_jobs_are_added_all_the_same(adopted: str) -> None:
    carry_out(adopted, give_way)
    before = catalogue(adopted, with_bodies=True)
    with pytest.raises(IncompatibleSchemaError, match="has given way to a Rust worker"):
        carry_out(adopted, migrate_for_work)
    assert catalogue(adopted, with_bodies=True) == before
    status = carry_out(adopted, inspect)
    assert (status.compatible, "ferryman migrate" in status.reason) == (False, True)
    assert "has given way already" in carry_out(adopted, give_way).note
    with psycopg.connect(adopted, autocommit=True) as connection:
        assert Tables(connection).add_job()["attempts"] == 0
    with SyncClient(adopted) as client, pytest.raises(SchemaMissingError, match="given way to a Rust worker"):
        client.list_active_workers()


def test_a_worker_that_was_about_to_extend_the_schema_when_it_gave_way_does_not_take_it_back(adopted: str) -> None:
    with psycopg.connect(adopted, autocommit=True) as connection:
        connection.execute("delete from graphile_worker._ferryman_migrations where id = %s", [LATEST_EXTENSION])

    def give_way_first(step: Step) -> None:
        if isinstance(step, Transaction):
            carry_out(adopted, give_way)

    with pytest.raises(GivenWayError):
        carry_out(adopted, lambda schema: watched(migrate_for_work(schema), give_way_first))
    assert "has given way already" in carry_out(adopted, give_way).note


def test_migrate_takes_it_back_and_says_what_it_said_at_the_adoption(node_database: NodeDatabase) -> None:
    dsn = node_database("0.16")
    first = carry_out(dsn, migrate)
    before = catalogue(dsn, with_bodies=True)
    carry_out(dsn, give_way)
    again = carry_out(dsn, migrate)
    assert (again.outcome, again.extensions_after) == (MigrationOutcome.ADOPTED, LATEST_EXTENSION)
    assert ["give-way" in notice for notice in first.notices] == [True]
    assert again.notices == first.notices
    assert catalogue(dsn, with_bodies=True) == before
    assert carry_out(dsn, migrate).outcome is MigrationOutcome.NOTHING


def test_at_revision_20_there_is_nothing_to_give_way_to(database: str) -> None:
    before = catalogue(database, with_bodies=True)
    done = carry_out(database, give_way)
    assert (done.dropped, "is at revision 20" in done.note) == ((), True)
    assert catalogue(database, with_bodies=True) == before
    migrate_as_rust(database)
    assert carry_out(database, migrate).outcome is MigrationOutcome.NOTHING


def test_it_is_refused_while_a_worker_is_registered_whether_it_lives_or_not(adopted: str) -> None:
    before = catalogue(adopted, with_bodies=True)
    with psycopg.connect(adopted, autocommit=True) as connection:
        Tables(connection).query("select graphile_worker.worker_heartbeat('ferryman-1')")
        with pytest.raises(SchemaError, match=r"registered in the schema .*: ferryman-1\. Nothing was changed"):
            carry_out(adopted, give_way)
        assert catalogue(adopted, with_bodies=True) == before
        assert carry_out(adopted, partial(give_way, force=True)).dropped == COPIES


def test_it_does_not_wait_for_whoever_reads_the_table_of_workers(adopted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.schema.changing.MOST_TRIES_OF_A_TABLE", 1)
    with psycopg.connect(adopted) as dump:
        dump.execute("lock table graphile_worker._private_workers in access share mode")
        with pytest.raises(SchemaError, match="run `ferryman schema give-way` again"):
            carry_out(adopted, give_way)


async def test_a_worker_that_lives_through_a_forced_one_loses_no_job(
    adopted: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, runs, may_end = App(adopted), [], asyncio.Event()

    @app.task
    async def hold(n: int) -> None:
        runs.append(n)
        await may_end.wait()

    shutdown = {"interrupted_job_retry_delay": timedelta()}
    worker = worker_of(app, recovery=recovery_of(), shutdown=shutdown)
    async with Client(adopted) as client, app.client() as producer, running(worker):
        await producer.add_job(hold.job(n=1))
        await until(lambda: runs == [1], "the job runs")
        await client.give_way(force=True)
        with psycopg.connect(adopted, autocommit=True) as connection:
            connection.execute("select pg_notify('worker:migrate', '{}')")
        await until(lambda: has_waited_with(caplog), "the worker has seen that the schema has given way")
        migrate_as_rust(adopted)
        # The worker finds that it is registered no more, gives back what it runs, and continues under a new id.
        await until(lambda: runs == [1, 1], "the job runs again")
        may_end.set()
        await producer.add_job(hold.job(n=2))
        with psycopg.connect(adopted, autocommit=True) as connection:
            await until(lambda: Tables(connection).jobs() == [], "all jobs are done")
    assert runs == [1, 1, 2]


async def test_a_worker_that_claims_ahead_waits_with_its_list_too(adopted: str) -> None:
    app, runs, may_end = App(adopted), [], asyncio.Event()

    @app.task
    async def hold(n: int) -> None:
        runs.append(n)
        await may_end.wait()

    worker = worker_of(app, concurrency=1, recovery=recovery_of(), local_queue=LocalQueueConfig(size=10))
    async with Client(adopted) as client, app.client() as producer, running(worker):
        await producer.add_jobs([hold.job(n=1), hold.job(n=2)])
        await until(
            lambda: runs == [1] and len(inside(worker).local_queue.held_claims) == 1, "one job runs, and one waits"
        )
        await client.give_way(force=True)
        await inside(worker).waiting_list.write()
        migrate_as_rust(adopted)
        may_end.set()
        with psycopg.connect(adopted, autocommit=True) as connection:
            await until(lambda: Tables(connection).jobs() == [], "all jobs are done")


async def test_a_worker_starts_no_job_from_its_next_beat_on(adopted: str) -> None:
    app, runs = App(adopted), []

    @app.task
    async def note(n: int) -> None:
        runs.append(n)

    # As long as its session could be lost without being missed, it would go on otherwise.
    worker = worker_of(app, recovery=recovery_of({**PATIENT, "lost_session_grace": 3600.0}))
    async with Client(adopted) as client, app.client() as producer, running(worker):
        await producer.add_job(note.job(n=1))
        await until(lambda: runs == [1], "the worker is at work")
        await client.give_way(force=True)
        await until(lambda: inside(worker).may_be_dead, "a beat has failed")
        await producer.add_job(note.job(n=2))
        migrate_as_rust(adopted)
        await until(lambda: runs == [1, 2], "the worker goes on under a new id")
