from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ferryman.errors import ConfigurationError, SchemaError
from ferryman.schema import LATEST_EXTENSION, Layout, Migration, MigrationOutcome, inspect, migrate
from tests.support.carrying import carry_out, watched
from tests.support.catalogue import catalogue
from tests.support.listening import heard

BREAKING = {1, 3, 11, 13, 14, 16, 19}


def test_a_fresh_install_says_what_it_did(empty_database: str) -> None:
    done = carry_out(empty_database, migrate)
    assert done == Migration(
        outcome=MigrationOutcome.INSTALLED, revision=20, extensions_before=0, extensions_after=LATEST_EXTENSION
    )


def test_a_fresh_install_fills_the_ledger_as_node_does(empty_database: str) -> None:
    carry_out(empty_database, migrate)
    with psycopg.connect(empty_database) as connection:
        rows = connection.execute("select id, breaking from graphile_worker.migrations order by id").fetchall()
    assert rows == [(number, number in BREAKING) for number in range(1, 21)]


def test_a_fresh_install_stops_nobody_in_other_schemas(empty_database: str) -> None:
    with heard(empty_database, "worker:migrate") as announcements:
        carry_out(empty_database, migrate)
    assert announcements == []


def test_a_second_run_does_nothing(database: str) -> None:
    before = catalogue(database, with_bodies=True)
    done = carry_out(database, migrate)
    assert done.outcome is MigrationOutcome.NOTHING
    assert catalogue(database, with_bodies=True) == before


def test_a_second_run_only_reads(database: str) -> None:
    steps = []
    carry_out(database, lambda schema: watched(migrate(schema), steps.append))
    assert [step.statement.name for step in steps] == ["read_state", "read_migrations", "read_extensions"]


def test_a_second_run_may_be_read_only(database: str) -> None:
    reader = make_conninfo(database, options="-c default_transaction_read_only=on")
    assert carry_out(reader, migrate).outcome is MigrationOutcome.NOTHING


def test_a_schema_that_was_made_beforehand_is_installed_into(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("create schema graphile_worker")
    assert carry_out(empty_database, inspect).layout is Layout.EMPTY
    assert carry_out(empty_database, migrate).outcome is MigrationOutcome.INSTALLED


@pytest.mark.parametrize("breaking", ["", ", breaking boolean not null default false"])
def test_an_empty_ledger_that_was_made_beforehand_is_used(empty_database: str, database: str, breaking: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("create schema graphile_worker")
        connection.execute(
            "create table graphile_worker.migrations"
            f" (id int primary key, ts timestamptz default now() not null{breaking})"
        )
    assert carry_out(empty_database, inspect).layout is Layout.EMPTY
    carry_out(empty_database, migrate)
    assert catalogue(empty_database) == catalogue(database)


def test_a_role_with_few_rights_can_install_into_its_own_schema(empty_database: str) -> None:
    with _role(empty_database, "few_rights") as dsn:
        with psycopg.connect(empty_database) as connection:
            connection.execute("create schema graphile_worker authorization few_rights")
        assert carry_out(dsn, migrate).outcome is MigrationOutcome.INSTALLED
        with psycopg.connect(dsn) as connection:
            assert connection.execute("select id from graphile_worker.add_job('task', job_key => 'k')").fetchone()


def test_a_role_without_rights_is_told_whose_turn_it_is(empty_database: str) -> None:
    with _role(empty_database, "no_rights") as dsn, pytest.raises(SchemaError, match="as the owner of the schema"):
        carry_out(dsn, migrate)
    assert carry_out(empty_database, inspect).layout is Layout.MISSING


HOSTILE_NAMES = [
    "Upper Case",
    'double"quote',
    "single'quote",
    'x"; drop schema public cascade; --',
    "dollar$quote$$tag",
    "$body$",
    "per%cent%s",
    ":schema",
    "$1",
    "back\\slash",
    "select",
    "new\nline -- comment",
    "größe 漢字",
    "n" * 63,
    "ä" * 31,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_any_schema_name_will_do(empty_database: str, name: str) -> None:
    assert carry_out(empty_database, migrate, name).outcome is MigrationOutcome.INSTALLED
    assert carry_out(empty_database, migrate, name).outcome is MigrationOutcome.NOTHING
    with psycopg.connect(empty_database) as connection:
        add_job = sql.SQL("select key from {}.add_job('task', queue_name => 'q', job_key => 'k')")
        assert connection.execute(add_job.format(sql.Identifier(name))).fetchone() == ("k",)


def test_a_name_that_would_end_our_function_bodies_is_refused(empty_database: str) -> None:
    with pytest.raises(ConfigurationError, match="must not contain"):
        carry_out(empty_database, migrate, "a$ferryman$b")


def test_many_schemas_live_in_one_database(empty_database: str) -> None:
    names = [f"schema_{number}" for number in range(8)]
    for name in names:
        carry_out(empty_database, migrate, name)
    with psycopg.connect(empty_database) as connection:
        connection.execute("select schema_3.add_job('task')")
        counts = [connection.execute(f"select count(*) from {name}.jobs").fetchone()[0] for name in names]
    assert counts == [0, 0, 0, 1, 0, 0, 0, 0]


class _role:  # noqa: N801 - reads as a function where it is used
    """A login of few rights, gone afterwards."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn, self._name = dsn, name

    def __enter__(self) -> str:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"create role {self._name} login password 'known'")
        return make_conninfo(self._dsn, user=self._name, password="known")

    def __exit__(self, *_: object) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"drop owned by {self._name} cascade")
            connection.execute(f"drop role {self._name}")
