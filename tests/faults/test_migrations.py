"""A migrating process is killed inside its transaction."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.schema import Layout, MigrationOutcome, inspect, migrate
from tests.support.carrying import carry_out
from tests.support.catalogue import catalogue
from tests.support.processes import Program
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_AFTER = """
    create function public.wait_in_the_middle() returns event_trigger language plpgsql
        as $$ begin perform pg_advisory_xact_lock_shared(1); end $$;
    create event trigger wait_in_the_middle on ddl_command_end when tag in ('{}')
        execute function public.wait_in_the_middle();
"""
GO_ON = "drop event trigger wait_in_the_middle; drop function public.wait_in_the_middle"
WITHOUT_THE_LAST_EXTENSIONS = """
    drop table graphile_worker._ferryman_progress;
    drop table graphile_worker._ferryman_schedules;
    delete from graphile_worker._ferryman_migrations where id in (3, 5, 6);
"""

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.mark.parametrize("command", ["CREATE SCHEMA", "CREATE TABLE", "CREATE INDEX", "CREATE FUNCTION"])
async def test_an_installation_that_is_killed_in_the_middle_leaves_nothing_and_the_next_one_makes_everything(
    empty_database: str, database: str, command: str
) -> None:
    with held_up_after(command, empty_database):
        await kill_while_it_waits(empty_database)

    assert carry_out(empty_database, inspect).layout is Layout.MISSING
    assert carry_out(empty_database, migrate).outcome is MigrationOutcome.INSTALLED
    assert catalogue(empty_database, with_bodies=True) == catalogue(database, with_bodies=True)


async def test_an_extension_that_is_killed_in_the_middle_leaves_the_schema_as_it_was_and_the_next_one_adds_it(
    database: str,
) -> None:
    whole = catalogue(database, with_bodies=True)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(WITHOUT_THE_LAST_EXTENSIONS)
    before = catalogue(database, with_bodies=True)
    with held_up_after("CREATE TABLE", database):
        await kill_while_it_waits(database)

    assert catalogue(database, with_bodies=True) == before
    assert carry_out(database, migrate).outcome is MigrationOutcome.ADOPTED
    assert catalogue(database, with_bodies=True) == whole


@contextmanager
def held_up_after(command: str, dsn: str) -> Iterator[None]:
    """Let every transaction wait after such a command, as long as the block lasts."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(WAIT_AFTER.format(command))
        connection.execute("select pg_advisory_lock(1)")
        try:
            yield
        finally:
            connection.execute("select pg_advisory_unlock(1)")
            connection.execute(GO_ON)


async def kill_while_it_waits(dsn: str) -> None:
    """Start `ferryman migrate`, and kill it when it has done a part of its work."""
    migrating = Program("ferryman", "migrate", environment={"DATABASE_URL": dsn})
    try:
        with psycopg.connect(dsn, autocommit=True) as observer:
            await until(lambda: somebody_waits_for_a_lock(observer), "it waits in the middle")
            migrating.signal(signal.SIGKILL)
            assert await migrating.died() == -signal.SIGKILL
    finally:
        migrating.end()
