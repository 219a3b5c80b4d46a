from __future__ import annotations

import logging

import psycopg
import pytest

from ferryman.database.identifiers import SchemaName
from ferryman.errors import IncompatibleSchemaError, SchemaMissingError, UnsupportedServerError
from ferryman.schema import Layout, MigrationOutcome, changing, inspect, migrate, upgrade
from ferryman.schema.refusals import MigrationUnderWayError
from tests.support.carrying import carry_out
from tests.support.catalogue import catalogue


def test_an_old_server_is_refused_before_anything_is_touched() -> None:
    steps = inspect(SchemaName("graphile_worker"))
    next(steps)
    with pytest.raises(StopIteration) as stopped:
        steps.send([(130022, False, [], [], [], 0)])
    problem = stopped.value.value.problem
    assert isinstance(problem, UnsupportedServerError)
    assert "needs PostgreSQL 14 or newer; this server is 13.22" in str(problem)


def test_a_schema_that_is_too_old_is_left_to_node(connection: psycopg.Connection, database: str) -> None:
    connection.execute("delete from graphile_worker.migrations where id > 17")
    connection.execute("update graphile_worker.migrations set ts = now() - interval '1 year'")
    _assert_refused(database, "at revision 17; Ferryman needs at least 18", "Upgrade it with graphile-worker")


def test_an_unknown_breaking_revision_is_refused(connection: psycopg.Connection, database: str) -> None:
    connection.execute("insert into graphile_worker.migrations (id, breaking) values (21, true), (22, false)")
    _assert_refused(database, "at revision 22", "breaking revision 21", "supports revisions 18 to 20")


def test_an_unknown_revision_that_breaks_nothing_is_warned_of(
    connection: psycopg.Connection, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute("insert into graphile_worker.migrations (id, breaking) values (21, false)")
    with caplog.at_level(logging.WARNING, logger="ferryman.schema"):
        done = carry_out(database, migrate)
    assert done.outcome is MigrationOutcome.NOTHING
    assert "is at revision 21" in done.warnings[0]
    assert done.warnings[0] in caplog.text


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ("create table graphile_worker.jobs (id int)", "jobs"),
        ("create view graphile_worker._private_tasks as select 1", "_private_tasks"),
        ("create type graphile_worker.job_spec as enum ('a')", "job_spec"),
        ("create function graphile_worker.add_job(int) returns int language sql as 'select 1'", "add_job"),
        ("create table graphile_worker.migrations (id serial, name text)", "migrations"),
        ("create table graphile_worker.migrations (id text, ts timestamptz)", "migrations"),
        ("create sequence graphile_worker.jobs_id_seq1", "jobs_id_seq1"),
    ],
)
def test_a_schema_of_somebody_else_is_refused(empty_database: str, taken: str, name: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("create schema graphile_worker")
        connection.execute(taken)
        (before,) = _objects(connection)
        with pytest.raises(IncompatibleSchemaError, match=f"is not Graphile Worker's.*{name}"):
            carry_out_on(connection, empty_database)
        assert _objects(connection) == [before]
    assert carry_out(empty_database, inspect).layout is Layout.FOREIGN


def test_unrelated_tables_are_no_obstacle(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("create schema shop")
        connection.execute("create table shop.orders (id int)")
    assert carry_out(empty_database, migrate, "shop").outcome is MigrationOutcome.INSTALLED


def test_a_damaged_schema_is_refused(connection: psycopg.Connection, database: str) -> None:
    connection.execute("drop table graphile_worker._private_known_crontabs")
    _assert_refused(database, "lacks _private_known_crontabs")


def test_a_half_finished_install_is_waited_for_and_then_refused(
    connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("delete from graphile_worker.migrations where id > 11")
    connection.execute("update graphile_worker.migrations set ts = now()")
    monkeypatch.setattr(changing, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(MigrationUnderWayError, match="another program seems to be installing it"):
        carry_out(database, migrate)


def test_a_missing_schema_cannot_be_upgraded(empty_database: str) -> None:
    with pytest.raises(SchemaMissingError, match="ferryman migrate"):
        carry_out(empty_database, upgrade)


def _assert_refused(dsn: str, *texts: str) -> None:
    before = catalogue(dsn, with_bodies=True)
    for operation in (migrate, upgrade):
        with pytest.raises(IncompatibleSchemaError) as refused:
            carry_out(dsn, operation)
        assert all(text in str(refused.value) for text in texts)
    status = carry_out(dsn, inspect)
    assert not status.compatible
    assert status.reason == str(refused.value)
    assert catalogue(dsn, with_bodies=True) == before


def _objects(connection: psycopg.Connection) -> list[tuple[int]]:
    count = "select count(*) from pg_depend where refobjid = 'graphile_worker'::regnamespace"
    return connection.execute(count).fetchall()


def carry_out_on(connection: psycopg.Connection, dsn: str) -> None:
    connection.commit()
    carry_out(dsn, migrate)
