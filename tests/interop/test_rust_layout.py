"""A schema that graphile_worker_rs has migrated: its 19 and 20 are not Node's, and it owns the recovery functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.schema import Layout, MigrationOutcome, Uninstallation, inspect, migrate, uninstall_extensions, upgrade
from ferryman.schema.extensions import EXTENSIONS
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.catalogue import catalogue
from tests.support.rust_migrations import migrate_as_rust

if TYPE_CHECKING:
    from collections.abc import Callable

    NodeDatabase = Callable[[str], str]

PARTS_OF_OURS = [
    part for extension in reversed(EXTENSIONS) if not extension.is_shared for part in reversed(extension.parts)
]
OURS_ALONE = [*PARTS_OF_OURS, "_ferryman_migrations"]
"""What Rust knows nothing of, in the order in which it is dropped."""


@pytest.fixture
def rust_database(node_database: NodeDatabase) -> str:
    """What older versions of Rust make of a schema that was at 18."""
    dsn = node_database("0.16")
    migrate_as_rust(dsn, to=20)
    return dsn


def test_it_is_recognised(rust_database: str) -> None:
    status = carry_out(rust_database, inspect)
    assert (status.layout, status.revision, status.highest_breaking) == (Layout.RUST, 20, 16)
    assert status.compatible


def test_it_is_adopted_without_touching_its_recovery_functions(rust_database: str) -> None:
    before = catalogue(rust_database, with_bodies=True)
    assert carry_out(rust_database, migrate).outcome is MigrationOutcome.ADOPTED
    assert catalogue(rust_database, with_bodies=True, without=OURS_ALONE) == before
    assert carry_out(rust_database, migrate).outcome is MigrationOutcome.NOTHING


def test_uninstalling_leaves_it_its_recovery_functions(rust_database: str) -> None:
    before = catalogue(rust_database, with_bodies=True)
    carry_out(rust_database, migrate)
    assert carry_out(rust_database, uninstall_extensions) == Uninstallation(tuple(OURS_ALONE))
    assert catalogue(rust_database, with_bodies=True) == before


def test_upgrading_leaves_it_alone_and_says_so(rust_database: str) -> None:
    before = catalogue(rust_database, with_bodies=True)
    done = carry_out(rust_database, upgrade)
    assert (done.revision_after, done.functions_repaired) == (20, False)
    assert "Upgrade it with the program that made it" in done.note
    assert catalogue(rust_database, with_bodies=True) == before


def test_rust_may_come_after_us(database: str) -> None:
    """Its newer versions replace the recovery functions in revision 21, and count on them from then on."""
    with psycopg.connect(database) as connection:
        connection.execute("insert into graphile_worker.migrations (id) values (21), (22)")
        connection.execute("create table graphile_worker._private_job_retirements (id bigint primary key)")
    before = catalogue(database, with_bodies=True, without=OURS_ALONE)
    status = carry_out(database, inspect)
    assert (status.layout, status.compatible, status.warnings) == (Layout.RUST, True, ())
    assert carry_out(database, uninstall_extensions) == Uninstallation(tuple(OURS_ALONE))
    assert catalogue(database, with_bodies=True) == before


def test_revisions_of_rust_beyond_those_we_know_are_warned_of(rust_database: str) -> None:
    with psycopg.connect(rust_database) as connection:
        connection.execute("insert into graphile_worker.migrations (id) values (21), (22)")
    assert carry_out(rust_database, inspect).warnings == ()
    with psycopg.connect(rust_database) as connection:
        connection.execute("insert into graphile_worker.migrations (id) values (23)")
    [warning] = carry_out(rust_database, inspect).warnings
    assert "is at revision 23; this version of Ferryman knows revisions up to 22" in warning


def test_a_schema_of_ours_has_all_that_rust_calls(database: str) -> None:
    """With the very shapes: Rust's revision 21 replaces these functions, which fails when a return type differs."""
    with psycopg.connect(database) as connection:
        shapes = connection.execute(
            """
            select proname, pg_get_function_arguments(oid), pg_get_function_result(oid)
            from pg_proc where pronamespace = 'graphile_worker'::regnamespace and proname = any(%s) order by 1
            """,
            [list(EXTENSIONS[0].parts)],
        ).fetchall()
    assert shapes == [
        ("delete_stale_workers", "worker_ids text[]", "void"),
        ("list_orphan_locked_workers", "stale_threshold interval", "TABLE(worker_id text)"),
        ("list_stale_workers", "stale_threshold interval", "TABLE(worker_id text)"),
        (
            "recover_dead_worker_jobs",
            "worker_ids text[], recovery_delay interval DEFAULT '00:00:00'::interval",
            "integer",
        ),
        ("worker_deregister", "worker_id text", "void"),
        ("worker_heartbeat", "worker_id text, metadata json DEFAULT NULL::json", "void"),
    ]


def test_node_starts_where_rust_was(rust_database: str) -> None:
    carry_out(rust_database, migrate)
    before = catalogue(rust_database, with_bodies=True)
    nodes.run("0.18", "runOnce", rust_database)
    assert catalogue(rust_database, with_bodies=True) == before
