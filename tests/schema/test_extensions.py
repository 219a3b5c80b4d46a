from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import App, SweepStaleWorkersOptions, SyncClient
from ferryman.errors import DatabaseError, IncompatibleSchemaError, SchemaError
from ferryman.schema import (
    MigrationOutcome,
    Uninstallation,
    changing,
    extensions,
    inspect,
    migrate,
    uninstall_extensions,
)
from ferryman.schema.extensions import EXTENSIONS, LATEST_EXTENSION, Extension
from tests.support.carrying import carry_out
from tests.support.catalogue import OURS, catalogue
from tests.support.logs import logged
from tests.support.workers import worker_of

if TYPE_CHECKING:
    from tests.support.tables import Tables


def test_the_ledger_says_what_was_made(connection: psycopg.Connection) -> None:
    rows = connection.execute("select id, name, made from graphile_worker._ferryman_migrations").fetchall()
    assert rows == [(extension.id, extension.name, list(extension.parts)) for extension in EXTENSIONS]


def test_numbers_have_no_gaps() -> None:
    assert [extension.id for extension in EXTENSIONS] == list(range(1, len(EXTENSIONS) + 1))


def test_uninstalling_leaves_graphiles_objects_and_nothing_else(database: str) -> None:
    before = catalogue(database, with_bodies=True, without=OURS)
    done = carry_out(database, uninstall_extensions)
    assert set(done.dropped) == OURS
    assert catalogue(database, with_bodies=True) == before


def test_uninstalling_twice_does_nothing(database: str) -> None:
    carry_out(database, uninstall_extensions)
    assert carry_out(database, uninstall_extensions) == Uninstallation(())


def test_what_was_uninstalled_can_be_installed_again(database: str) -> None:
    before = catalogue(database, with_bodies=True)
    carry_out(database, uninstall_extensions)
    done = carry_out(database, migrate)
    assert done.outcome is MigrationOutcome.ADOPTED
    assert (done.extensions_before, done.extensions_after) == (0, LATEST_EXTENSION)
    assert catalogue(database, with_bodies=True) == before


def test_a_later_extension_is_added_to_those_that_are_there(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Extension(LATEST_EXTENSION + 1, "made up", ("worker_heartbeat",), is_shared=True)
    monkeypatch.setattr(extensions, "EXTENSIONS", (*EXTENSIONS, later))
    assert carry_out(database, migrate).outcome is MigrationOutcome.ADOPTED
    assert carry_out(database, inspect).extension_revision == LATEST_EXTENSION + 1
    assert carry_out(database, migrate).outcome is MigrationOutcome.NOTHING


def test_schedules_from_before_they_had_flags_are_kept_and_may_get_some(
    database: str, connection: psycopg.Connection
) -> None:
    with SyncClient(database) as client:
        client.schedules.add("0 8 * * * report")
        connection.execute("alter table graphile_worker._ferryman_schedules drop column flags")
        connection.execute("delete from graphile_worker._ferryman_migrations where id = 6")
        assert carry_out(database, migrate).outcome is MigrationOutcome.ADOPTED

        [kept] = client.schedules.list()
        assert (kept.identifier, kept.crontab.flags) == ("report", None)
        assert client.schedules.change("report", replace(kept.crontab, flags=["loud"])).crontab.flags == ("loud",)


@pytest.fixture
def indexed_without_ids(connection: psycopg.Connection) -> None:
    """A schema as the version before extension 7 left it: extension 4 made all three indexes."""
    connection.execute(
        """
        drop trigger _ferryman_mark_superseded on graphile_worker._private_jobs;
        drop function graphile_worker._ferryman_mark_superseded;
        drop table graphile_worker._ferryman_worker_states;
        drop index graphile_worker._ferryman_jobs_by_queue;
        create index _ferryman_jobs_by_queue on graphile_worker._private_jobs (task_id, job_queue_id, priority, run_at)
        where job_queue_id is not null and locked_at is null and attempts < max_attempts;
        delete from graphile_worker._ferryman_migrations where id >= 7;
        update graphile_worker._ferryman_migrations set made = made || '{_ferryman_jobs_by_queue}' where id = 4;
        """
    )


@pytest.mark.usefixtures("indexed_without_ids")
def test_the_index_by_queue_gets_the_id(database: str, empty_database: str) -> None:
    carry_out(empty_database, migrate)
    assert catalogue(database, with_bodies=True) != catalogue(empty_database, with_bodies=True)

    done = carry_out(database, migrate)

    assert done.outcome is MigrationOutcome.ADOPTED
    assert (done.extensions_before, done.extensions_after) == (6, LATEST_EXTENSION)
    assert catalogue(database, with_bodies=True) == catalogue(empty_database, with_bodies=True)
    assert set(carry_out(database, uninstall_extensions).dropped) == OURS


@pytest.mark.usefixtures("indexed_without_ids")
def test_an_index_is_not_replaced_while_somebody_reads_the_table_and_others_go_on(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "MOST_TRIES_OF_A_TABLE", 2)
    before = catalogue(database)
    with psycopg.connect(database) as dump:
        dump.execute("select from graphile_worker._private_jobs")
        with pytest.raises(SchemaError, match="has used one of its tables all the time"):
            carry_out(database, migrate)
        assert catalogue(database) == before
        with SyncClient(database) as client:
            client.add_raw_job("task")
    assert carry_out(database, migrate).outcome is MigrationOutcome.ADOPTED


@pytest.mark.usefixtures("indexed_without_ids")
def test_a_worker_starts_although_a_dump_keeps_an_index_from_being_replaced(
    database: str, sync_client: SyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(database)
    ran = []

    @app.task
    async def note() -> None:
        ran.append(True)

    sync_client.add_job(note.job())
    with psycopg.connect(database) as dump:
        dump.execute("select from graphile_worker._private_jobs")
        asyncio.run(worker_of(app).run_once())
    assert ran == [True]
    assert len(logged(caplog, "extension_missing")) == 1
    assert len(carry_out(database, inspect).warnings) == 1

    asyncio.run(worker_of(app).run_once())
    assert carry_out(database, inspect).warnings == ()


OLD_RULE = "job.key is null and job.attempts >= job.max_attempts and job.updated_at > job.locked_at"


@pytest.fixture
def unmarked(connection: psycopg.Connection) -> None:
    """A schema as the version before extension 8 left it: nobody marks superseded jobs, and clocks tell them."""
    connection.execute(
        f"""
        drop trigger _ferryman_mark_superseded on graphile_worker._private_jobs;
        drop function graphile_worker._ferryman_mark_superseded;
        drop table graphile_worker._ferryman_worker_states;
        delete from graphile_worker._ferryman_migrations where id >= 8;
        create or replace function graphile_worker.recover_dead_worker_jobs(
            worker_ids text[], recovery_delay interval default '0 seconds'
        ) returns integer language plpgsql as $$ begin perform '{OLD_RULE}'; return 0; end $$;
        """
    )


@pytest.mark.usefixtures("unmarked")
def test_jobs_that_were_superseded_before_there_were_marks_stay_superseded(
    database: str, empty_database: str, tables: Tables
) -> None:
    for key in ("replaced", "kept"):
        tables.claim(tables.add_job(job_key=key)["id"], key)
    tables.claim(tables.add_job(max_attempts=1)["id"], "last attempt", age="-1 second")
    tables.add_job(job_key="replaced")
    carry_out(empty_database, migrate)
    assert catalogue(database, with_bodies=True) != catalogue(empty_database, with_bodies=True)

    done = carry_out(database, migrate)

    assert done.outcome is MigrationOutcome.ADOPTED
    assert (done.extensions_before, done.extensions_after) == (7, LATEST_EXTENSION)
    assert catalogue(database, with_bodies=True) == catalogue(empty_database, with_bodies=True)
    assert [job["locked_by"] for job in tables.jobs() if "ferryman:superseded" in (job["flags"] or {})] == ["replaced"]
    tables.query("update graphile_worker._private_jobs set updated_at = '2000-01-01'")
    tables.query("select graphile_worker.recover_dead_worker_jobs('{replaced,kept,last attempt}')")
    assert [job["is_available"] for job in tables.jobs()] == [False, True, True, True]


@pytest.mark.usefixtures("unmarked")
def test_until_there_are_marks_a_worker_goes_by_the_clocks(
    database: str, sync_client: SyncClient, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(database)
    ran = []

    @app.task
    async def note() -> None:
        ran.append(True)

    sync_client.add_job(note.job())
    replaced = tables.claim(tables.add_job(job_key="k")["id"], "dead")
    tables.add_job(job_key="k")
    last = tables.claim(tables.add_job(max_attempts=1)["id"], "dead", age="-1 second")
    with psycopg.connect(database) as writer:
        writer.execute("update graphile_worker._private_jobs set priority = 0 where false")
        asyncio.run(worker_of(app).run_once())
        sync_client.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=["dead"]))
    assert ran == [True]
    assert len(logged(caplog, "extension_missing")) == 1
    assert (tables.job(replaced["id"])["is_available"], tables.job(last["id"])["is_available"]) == (False, True)

    asyncio.run(worker_of(app).run_once())
    assert carry_out(database, inspect).warnings == ()


@pytest.mark.parametrize("missing", [1, 6])
@pytest.mark.usefixtures("indexed_without_ids")
def test_a_worker_gets_what_it_needs_although_a_dump_keeps_the_rest_from_being_installed(
    database: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture, missing: int
) -> None:
    connection.execute("delete from graphile_worker._ferryman_migrations where id = %s", [missing])
    with psycopg.connect(database) as dump:
        dump.execute("select from graphile_worker._private_jobs")
        asyncio.run(worker_of(App(database)).run_once())
    installed = [
        row[0] for row in connection.execute("select id from graphile_worker._ferryman_migrations order by id")
    ]
    assert installed == [extension.id for extension in EXTENSIONS if extension.is_needed]
    assert len(logged(caplog, "extension_missing")) == 1
    [warning] = carry_out(database, inspect).warnings
    assert "extension 7 (order of queues by id), extension 8 (superseded jobs)" in warning
    assert "ferryman migrate" in warning

    done = carry_out(database, migrate)
    assert (done.outcome, done.warnings) == (MigrationOutcome.ADOPTED, ())
    assert carry_out(database, inspect).warnings == ()


def test_a_worker_does_not_start_without_what_it_needs(database: str, connection: psycopg.Connection) -> None:
    role = f"worker_{os.getpid()}"
    connection.execute(f"create role {role} login bypassrls password 'known'")
    try:
        connection.execute("delete from graphile_worker._ferryman_migrations where id = 6")
        connection.execute(f"grant usage on schema graphile_worker to {role}")
        connection.execute(f"grant all on all tables in schema graphile_worker to {role}")
        with pytest.raises(SchemaError, match="may not change the schema"):
            asyncio.run(worker_of(App(make_conninfo(database, user=role, password="known"))).run_once())
    finally:
        connection.execute(f"drop owned by {role} cascade")
        connection.execute(f"drop role {role}")


@pytest.mark.parametrize("writer", ["us", "Node"])
def test_functions_of_an_earlier_version_get_a_search_path_and_bodies_that_need_none(
    database: str, empty_database: str, connection: psycopg.Connection, writer: str
) -> None:
    """Bodies of Graphile's functions that somebody else wrote stay."""
    label = "<<ferryman_1>>" if writer == "us" else ""
    for function in ("worker_heartbeat", "recover_dead_worker_jobs", "_ferryman_mark_superseded"):
        connection.execute(f"alter function graphile_worker.{function} reset search_path")
    for (definition,) in connection.execute(
        "select pg_get_functiondef(oid) from pg_proc where proname in ('add_job', 'add_jobs')"
    ).fetchall():
        connection.execute(definition.replace("<<ferryman_2>>", label).replace("pg_catalog.", "pg_catalog ."))
    connection.execute("delete from graphile_worker._ferryman_migrations where id = 10")
    before = catalogue(database, with_bodies=True)

    assert carry_out(database, migrate).outcome is MigrationOutcome.ADOPTED

    carry_out(empty_database, migrate)
    assert catalogue(database) == catalogue(empty_database)
    wanted = before if writer == "Node" else catalogue(empty_database, with_bodies=True)
    assert _bodies(catalogue(database, with_bodies=True)) == _bodies(wanted)


def _bodies(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("body")]


@pytest.mark.usefixtures("indexed_without_ids")
def test_an_index_that_two_extensions_have_made_is_dropped_once(database: str) -> None:
    carry_out(database, migrate)
    assert carry_out(database, uninstall_extensions).dropped.count("_ferryman_jobs_by_queue") == 1


def test_extensions_of_a_newer_ferryman_are_not_uninstalled(database: str, connection: psycopg.Connection) -> None:
    connection.execute("insert into graphile_worker._ferryman_migrations (id, name) values (99, 'from the future')")
    before = catalogue(database)
    with pytest.raises(IncompatibleSchemaError, match="use the version that installed it"):
        carry_out(database, uninstall_extensions)
    assert catalogue(database) == before


def test_what_somebody_builds_on_is_not_torn_down(database: str, connection: psycopg.Connection) -> None:
    connection.execute("create view public.alive as select id from graphile_worker._private_workers")
    before = catalogue(database)
    with pytest.raises(DatabaseError, match="other objects depend on it"):
        carry_out(database, uninstall_extensions)
    assert catalogue(database) == before
