"""Finding the database, losing it, and never telling its password."""

from __future__ import annotations

import asyncio
import logging
import traceback
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import App, Client, JobSpec, SyncClient
from ferryman.database.connections import OwnAsyncConnection
from ferryman.database.sessions import AsyncSession
from ferryman.database.steps import Transaction, Wait
from ferryman.embedded import EmbeddedPostgres
from ferryman.errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    NoDatabaseError,
    SchemaMissingError,
)
from tests.support.waiting import end_sessions_that_wait, somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman.database.steps import Steps

SECRET = "s3cr3t-p4ss"


async def test_without_any_address_the_error_names_what_was_tried_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoDatabaseError) as caught:
        async with Client():
            pass
    for word in ("DATABASE_URL", "--database-url", "PGHOST", "pyproject.toml", "ferryman postgres"):
        assert word in str(caught.value)


async def test_the_address_comes_from_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    async with App().client() as client:
        assert (await client.counts()).total == 0


async def test_libpqs_own_variables_are_enough(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in psycopg.conninfo.conninfo_to_dict(database).items():
        variable = {"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}")
        monkeypatch.setenv(variable, str(value))
    async with Client() as client:
        assert (await client.counts()).total == 0


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ferry:{SECRET}@127.0.0.1:1/db",
        f"postgres://ferry:{SECRET}@127.0.0.1:1/db?connect_timeout=1",
        f"postgresql+asyncpg://ferry:{SECRET}@127.0.0.1:1/db",
        f"host=127.0.0.1 port=1 user=ferry password={SECRET}",
    ],
)
async def test_an_unreachable_server_is_named_without_its_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DatabaseUnavailableError, match=r"could not connect to .* at 127\.0\.0\.1:1") as caught:
        async with Client(url):
            pass
    with pytest.raises(DatabaseUnavailableError) as blocking, SyncClient(url):
        pass

    for error in (caught.value, blocking.value):
        assert SECRET not in "".join(traceback.format_exception(error))
    assert SECRET not in caplog.text
    assert "ferryman postgres" in str(caught.value)


async def test_a_wrong_password_is_told_as_such(server: EmbeddedPostgres) -> None:
    url = make_conninfo(server.tcp_dsn, password=SECRET)
    with pytest.raises(DatabaseUnavailableError, match="check the user name and the password") as caught:
        async with Client(url):
            pass
    with pytest.raises(DatabaseUnavailableError, match="check the user name and the password"), SyncClient(url):
        pass
    assert "ferryman postgres" not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_login_that_the_server_refuses_is_not_taken_for_a_server_that_does_not_run(
    server: EmbeddedPostgres,
) -> None:
    url = make_conninfo(server.tcp_dsn, dbname="nowhere")
    with pytest.raises(DatabaseUnavailableError, match='database "nowhere" does not exist') as caught:
        async with Client(url):
            pass
    assert str(caught.value).endswith("its address is right: fix what its message names, then try again")


async def test_an_unreachable_server_is_told_in_one_line() -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"Connection refused\. Check that PostgreSQL runs") as caught:
        async with Client("host=127.0.0.1 port=1"):
            pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", [f"postgresql://ferry:{SECRET}@[::1", f"host password={SECRET}", f"postgresql://x?passwrd={SECRET}"]
)
async def test_an_address_that_makes_no_sense_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="could not be understood") as caught:
        async with Client(url):
            pass
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("password", [f"p@{SECRET}", f"p/{SECRET}", f"p@{SECRET}/x"])
async def test_a_password_that_is_not_encoded_is_not_taken_for_a_host(password: str) -> None:
    with pytest.raises(ConfigurationError, match="Write %40 for @") as caught:
        async with Client(f"postgresql://ferry:{password}@127.0.0.1:1/db"):
            pass
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_nothing_that_can_be_printed_shows_the_password() -> None:
    url = f"postgresql://ferry:{SECRET}@127.0.0.1:1/db"
    for thing in (App(url), App(url).settings, Client(url), SyncClient(url), App(url).client()):
        assert SECRET not in repr(thing) + str(thing)


async def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(ConfigurationError, match="this Client is not open"):
        await Client("postgresql://nowhere").add_raw_job("x")
    with pytest.raises(ConfigurationError, match="this SyncClient is not open"):
        SyncClient("postgresql://nowhere").add_raw_job("x")


async def test_a_database_without_the_schema_tells_how_to_install_it(empty_database: str) -> None:
    async with Client(empty_database) as client:
        with pytest.raises(SchemaMissingError, match="ferryman migrate"):
            await client.add_raw_job("x")
        await client.migrate()
        await client.add_raw_job("x")


async def test_connections_that_the_server_closed_while_idle_are_not_used_again(
    client: Client, connection: psycopg.Connection
) -> None:
    await asyncio.gather(*(client.add_raw_job("x") for _ in range(20)))

    ended = connection.execute(
        "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    ).fetchone()
    await asyncio.gather(*(client.add_raw_job("x") for _ in range(20)))

    assert ended is not None
    assert ended[0] >= 1
    assert (await client.counts()).total == 40


def test_the_blocking_client_does_not_use_closed_connections_either(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    sync_client.add_raw_job("x")
    connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    sync_client.add_raw_job("x")
    assert sync_client.counts().total == 2


async def test_a_connection_lost_in_the_middle_says_that_the_outcome_is_unknown(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as blocker:
        await blocker.execute("lock table graphile_worker._private_jobs in access exclusive mode")
        add = asyncio.create_task(client.add_raw_job("x"))
        await until(lambda: somebody_waits_for_a_lock(connection), "the add waits")
        end_sessions_that_wait(connection)

        with pytest.raises(DatabaseUnavailableError, match="may or may not have taken effect"):
            await add
    await client.add_raw_job("x")


async def test_a_call_that_is_under_way_when_the_client_closes_comes_to_its_end(
    database: str, connection: psycopg.Connection
) -> None:
    async with Client(database) as client:
        with connection.transaction(), psycopg.connect(database, autocommit=True) as observer:
            connection.execute("lock table graphile_worker._private_jobs")
            adding = asyncio.create_task(client.add_raw_job("x"))
            await until(lambda: somebody_waits_for_a_lock(observer), "the call is under way")
            await client.close()

        job = await adding

    assert connection.execute("select id from graphile_worker.jobs").fetchall() == [(job.id,)]
    await until(lambda: _others(connection) == 0, "its connection is closed")


def _others(connection: psycopg.Connection) -> int:
    [(count,)] = connection.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and backend_type = 'client backend'"
    )
    return count


async def test_a_cancelled_call_leaves_the_client_usable(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as blocker:
        await blocker.execute("lock table graphile_worker._private_jobs in access exclusive mode")
        add = asyncio.create_task(client.add_raw_job("x"))
        await until(lambda: somebody_waits_for_a_lock(connection), "the add waits")
        add.cancel()
        with pytest.raises(asyncio.CancelledError):
            await add
    job = await client.add_raw_job("y")
    assert [found.id for found in (await client.list_jobs()).jobs] == [job.id]


async def test_a_call_that_is_cancelled_again_while_it_rolls_back_gives_its_connection_back(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_in_transaction, is_rolling_back = asyncio.Event(), asyncio.Event()

    def steps() -> Steps[None]:
        yield Transaction()
        is_in_transaction.set()
        yield Wait(3600.0)

    async def never_end(_: OwnAsyncConnection) -> None:
        is_rolling_back.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(OwnAsyncConnection, "rollback", never_end)
    async with Client(database, max_connections=1) as client:
        call = asyncio.create_task(AsyncSession(lambda: client.pool, client.schema).run(steps()))
        for moment in (is_in_transaction, is_rolling_back):
            await moment.wait()
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        async with asyncio.timeout(20):
            assert (await client.counts()).total == 0


async def test_two_clients_deadlocked_by_a_third_party_both_succeed(database: str) -> None:
    """Deadlocks undo everything, so a client on its own connection simply tries again."""
    async with Client(database) as client, await psycopg.AsyncConnection.connect(database, autocommit=True) as other:
        await other.execute(
            "create function fail_once() returns trigger language plpgsql as $$ begin "
            "if (select last_value < 3 from graphile_worker.jobs_id_seq1) "
            "then raise exception 'victim' using errcode = '40P01'; end if; return new; end $$"
        )
        await other.execute(
            "create trigger t before insert on graphile_worker._private_jobs for each row execute function fail_once()"
        )

        job = await client.add_raw_job("x")

        assert job.id == 3


async def test_an_embedded_address_brings_its_own_server(server_folder: Path) -> None:
    async with Client(f"embedded:{server_folder}/pg") as client:
        await client.migrate()
        await client.add_raw_job("x")
        with SyncClient(f"embedded:{server_folder}/pg") as same:
            assert same.counts().total == 1


@pytest.mark.parametrize(("given", "shown"), [(None, "ferryman"), ("shop", "shop")])
async def test_connections_bear_our_name_unless_told_otherwise(
    database: str, connection: psycopg.Connection, given: str | None, shown: str
) -> None:
    async with Client(make_conninfo(database, application_name=given)) as client:
        await client.counts()
        names = connection.execute(
            "select distinct application_name from pg_stat_activity "
            "where pid <> pg_backend_pid() and datname = current_database()"
        ).fetchall()
    assert names == [(shown,)]


def test_an_embedded_server_is_never_chosen_silently(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(EmbeddedPostgres, "start", lambda _self: pytest.fail("started a server unasked"))
    with pytest.raises(NoDatabaseError), SyncClient():
        pass


@pytest.fixture
def other_encoding(request: pytest.FixtureRequest, connection: psycopg.Connection) -> Iterator[str]:
    """A database with an encoding that is not UTF8."""
    name = f"{connection.info.dbname}_{request.param.lower()}"
    connection.execute(f"create database {name} encoding '{request.param}' locale 'C' template template0")
    yield make_conninfo(connection.info.dsn, dbname=name, password=connection.info.password)
    connection.execute(f"drop database {name} with (force)")


@pytest.mark.parametrize("other_encoding", ["SQL_ASCII", "LATIN1"], indirect=True)
def test_a_database_with_another_encoding_stores_what_it_can(other_encoding: str) -> None:
    with SyncClient(other_encoding) as client:
        client.migrate()
        keyed = client.add_raw_job("x", "é", JobSpec(job_key="k"))
        assert client.get_job(keyed.id) == keyed
        with psycopg.connect(other_encoding) as using:
            borrowed = client.add_raw_job("x", "é", JobSpec(job_key="b"), using=using)
            assert client.get_job(borrowed.id, using=using) == borrowed
        assert client.get_job(borrowed.id) == borrowed
        if "latin1" in other_encoding:
            with pytest.raises(DatabaseError, match="22P05"):
                client.add_raw_job("x", "🚢")


async def test_dates_are_read_whatever_style_the_database_has_for_a_default(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute(f"alter database {connection.info.dbname} set datestyle = 'German'")
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    async with Client(database) as client:
        job = await client.add_raw_job("x", {}, JobSpec(job_key="k", run_at=in_an_hour))
        assert await client.get_job(job.id) == job
    with SyncClient(database) as blocking:
        assert blocking.get_job(job.id) == job
    assert job.run_at == in_an_hour
