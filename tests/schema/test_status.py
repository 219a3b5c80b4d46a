from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.errors import SchemaMissingError
from ferryman.schema import LATEST_EXTENSION, Layout, SchemaStatus, inspect
from tests.support.carrying import carry_out

if TYPE_CHECKING:
    import psycopg


def test_a_missing_schema(empty_database: str) -> None:
    status = carry_out(empty_database, inspect)
    assert (status.layout, status.exists, status.revision) == (Layout.MISSING, False, None)
    assert isinstance(status.problem, SchemaMissingError)


def test_a_schema_of_ours(database: str, connection: psycopg.Connection) -> None:
    assert carry_out(database, inspect) == SchemaStatus(
        schema="graphile_worker",
        layout=Layout.GRAPHILE,
        server_version=connection.info.server_version,
        revision=20,
        highest_breaking=19,
        extension_revision=LATEST_EXTENSION,
        functions_repaired=True,
    )


def test_a_function_body_of_somebody_else_is_noticed(database: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "create or replace function graphile_worker.add_jobs("
        "    specs graphile_worker.job_spec[], job_key_preserve_run_at boolean default false)"
        " returns setof graphile_worker._private_jobs language plpgsql as 'begin return; end'"
    )
    status = carry_out(database, inspect)
    assert (status.functions_repaired, status.compatible) == (False, True)


def test_extensions_of_a_newer_ferryman_are_warned_of(database: str, connection: psycopg.Connection) -> None:
    connection.execute("insert into graphile_worker._ferryman_migrations (id, name) values (99, 'from the future')")
    status = carry_out(database, inspect)
    assert status.extension_revision == 99
    assert "a newer version of Ferryman" in status.warnings[0]
    assert status.compatible
