"""Whole workers behind PgBouncer, which lends a server connection for one transaction."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman import App, Client, JobSpec, RawJobSpec, SyncClient
from ferryman.database.addresses import parse_address
from ferryman.database.connecting import configure
from ferryman.database.connections import OwnConnection
from ferryman.recovery.beat_session import BeatSession
from ferryman.worker.claiming import listener
from tests.support.beats import SCHEMA, over_tcp
from tests.support.impostors import surrounded
from tests.support.logs import logged
from tests.support.network import POOL_SIZE, PgBouncer
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.crash_site import CrashSite

ISOLATION = "select current_setting($1)"
NOTE_SEARCH_PATH = """
    create table noted (job bigint, path text);
    create function note() returns trigger language plpgsql as $$ begin
        insert into public.noted values (new.id, pg_catalog.current_setting('search_path'));
        return new;
    end $$;
    create trigger noted before insert on graphile_worker._private_jobs for each row execute function note()
"""
NOON = datetime(2026, 7, 4, 12, tzinfo=UTC)
PATH_AND_TIME = "select pg_catalog.current_setting('search_path'), $1::pg_catalog.timestamptz"
QUEUES = [None, None, "a", "b"]

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.fixture
def pooler(server: EmbeddedPostgres, database: str, server_folder: Path) -> Iterator[PgBouncer]:
    with PgBouncer(over_tcp(server, database), server_folder) as started:
        yield started


@pytest.mark.parametrize("listens", [False, True], ids=["polling", "listening"])
@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
async def test_jobs_are_added_claimed_and_settled_through_a_pooler_once_each(
    site: CrashSite, pooler: PgBouncer, listens: bool, prefetch: int | None
) -> None:
    """More workers than the pooler has connections. Whoever listens hears nothing there, and must not need to."""
    workers = [site.start(pooler.dsn, listens=listens, prefetch=prefetch, faults=None) for _ in range(2)]
    for worker in workers:
        await worker.ready()
    jobs: list[int] = []
    async with Client(pooler.dsn) as client:
        for _ in range(4):
            specs = [RawJobSpec("work", {}, JobSpec(queue_name=QUEUES[number % 4])) for number in range(40)]
            added = [job.id for job in await client.add_raw_jobs(specs)]
            for job in added:
                site.history.note("added", job=job)
            jobs += added
        for number in range(20):
            job = await client.add_raw_job("work", {}, JobSpec(job_key=f"key {number}"))
            site.history.note("added", job=job.id)
            jobs.append(job.id)

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")

    await site.all_done()
    assert sorted(site.history.jobs("started")) == jobs
    assert prepared_statements(pooler) == 0
    site.check()


async def test_jobs_survive_a_pooler_that_is_killed_under_load(site: CrashSite, pooler: PgBouncer) -> None:
    jobs = await site.add(200, queues=QUEUES, seconds=0.01)
    worker = site.start(pooler.dsn, listens=False, faults=None)
    for done in (30, 90):
        await until(lambda done=done: len(site.history.jobs("ended")) >= done, f"{done} jobs ended")
        pooler.stop()
        await worker.in_trouble("claiming jobs")
        pooler.start()

    await site.all_done()

    assert sorted(site.history.jobs("started")) == jobs
    site.check()


async def test_a_worker_behind_a_pooler_does_not_listen_and_says_so_once(
    pooler: PgBouncer, caplog: pytest.LogCaptureFixture
) -> None:
    """LISTEN would stay behind in a session that others use next."""
    caplog.set_level("INFO")
    app, ran = App(pooler.dsn), []

    @app.task
    async def work() -> None:
        ran.append(1)

    async with running(worker_of(app, poll_interval=timedelta(milliseconds=100))), Client(pooler.dsn) as client:
        for number in (1, 2):
            await client.add_raw_job("work")
            await until(lambda number=number: len(ran) == number, "the job is found by polling")
        await until(lambda: logged(caplog, "not_listening"), "the worker notices the pooler")

    assert channels_listened_to(pooler) == []
    assert len(logged(caplog, "not_listening")) == 1
    assert logged(caplog, "duty_failed") == []


async def test_a_worker_listens_when_the_pooler_is_gone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SECONDS_BETWEEN_PROOFS", 0.01)
    looks = iter([True, True, False])
    made = listener.Listener(
        parse_address(database), SCHEMA, is_behind_pooler=lambda: next(looks, False), poll_seconds=2.0
    )
    listening = asyncio.create_task(made.run())
    await until(lambda: made.is_listening, "it has looked again")
    listening.cancel()


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
async def test_behind_a_pooler_the_default_isolation_of_the_database_does_no_harm(
    server: EmbeddedPostgres, database: str, server_folder: Path, connection: psycopg.Connection, isolation: str
) -> None:
    """No session setting can change it there."""
    connection.execute(f"alter database {connection.info.dbname} set default_transaction_isolation = '{isolation}'")
    with PgBouncer(over_tcp(server, database), server_folder) as pooler:
        async with Client(pooler.dsn) as client, client.pool.connection() as own:
            assert await own.fetch(ISOLATION, ["transaction_isolation"]) == [("read committed",)]
            with pytest.raises(psycopg.DataError):
                await own.fetch("select $1::int4", ["no number"])
            assert list(await own.fetch_lazily(ISOLATION, ["transaction_isolation"])) == [("read committed",)]
            await own.fetch(own.begin)
            assert await own.fetch(ISOLATION, ["transaction_isolation"]) == [("read committed",)]
            await own.fetch("commit")
            assert await own.fetch(ISOLATION, ["enable_seqscan"]) == [("on",)], "nothing of ours stays behind"
            await client.add_raw_jobs([RawJobSpec("x", {}, JobSpec(job_key=f"{n}")) for n in range(20)])
            assert (await client.counts()).total == 20
        blocking = OwnConnection.connect(pooler.dsn, autocommit=True)
        configure(blocking)
        assert blocking.fetch(ISOLATION, ["transaction_isolation"]) == [("read committed",)]
        with pytest.raises(psycopg.DataError):
            blocking.fetch("select $1::int4", ["no number"])
        assert blocking.fetch(ISOLATION, ["transaction_isolation"]) == [("read committed",)]
        blocking.close()
        session = BeatSession.open(parse_address(pooler.dsn), SCHEMA, "worker")
        assert session._connection.fetch(ISOLATION, ["transaction_isolation"]) == [("read committed",)]
        assert session._connection.fetch(ISOLATION, ["statement_timeout"]) == [("0",)], "nothing of ours stays behind"
        session.close()


async def test_behind_a_pooler_neither_the_search_path_nor_the_datestyle_of_a_role_does_harm(
    server: EmbeddedPostgres, empty_database: str, server_folder: Path
) -> None:
    """They are set for each transaction, and nothing stays behind in a session that others use next."""
    with surrounded(empty_database) as dsn:
        with psycopg.connect(empty_database, autocommit=True) as owner:
            owner.execute(f"alter database {owner.info.dbname} set datestyle = 'German'")
        parts = conninfo_to_dict(dsn)
        over = make_conninfo(over_tcp(server, dsn), user=parts["user"], password=parts["password"])
        with PgBouncer(over, server_folder) as pooler, SyncClient(pooler.dsn) as blocking:
            blocking.migrate()
            async with Client(pooler.dsn) as client, client.pool.connection() as own:
                assert own.is_pooled
                [late] = await client.add_raw_jobs([RawJobSpec("x", {}, JobSpec(delay=timedelta(hours=1)))])
                assert late.run_at == late.created_at + timedelta(hours=1)
                assert (await client.add_raw_job("x")).created_at <= blocking.add_raw_job("x").created_at
                added = await client.add_raw_job("x", {}, JobSpec(job_key="key", run_at=NOON))
                for job in (added, await client.get_job(added.id), blocking.get_job(added.id)):
                    assert job is not None
                    assert job.run_at == NOON
                [[path, at]] = await own.fetch_lazily(PATH_AND_TIME, [NOON])
                assert (path, at) == ("pg_catalog, pg_temp", NOON)
                await own.fetch(own.begin)
                assert await own.fetch(PATH_AND_TIME, [NOON]) == [(path, at)]
                await own.fetch("rollback")
                with psycopg.connect(pooler.dsn, prepare_threshold=None) as other:
                    found = other.execute("show search_path").fetchone(), other.execute("show datestyle").fetchone()
                assert found == (('"$user", public, pg_catalog',), ("German, DMY",))


async def test_behind_a_pooler_a_job_is_added_by_its_statement_alone(
    server: EmbeddedPostgres, database: str, server_folder: Path, connection: psycopg.Connection
) -> None:
    """It names every schema. Settings for it would cost more than all else that a producer does."""
    connection.execute(NOTE_SEARCH_PATH)
    with PgBouncer(over_tcp(server, database), server_folder) as pooler, SyncClient(pooler.dsn) as blocking:
        async with Client(pooler.dsn) as client:
            await client.add_raw_job("async")
            await client.add_raw_jobs([RawJobSpec("many", {})])
            blocking.add_raw_job("blocking")
            await client.add_raw_job("keyed", spec=JobSpec(job_key="key"))
    noted = connection.execute("select path from noted order by job").fetchall()
    assert noted == [('"$user", public',)] * 3 + [("pg_catalog, pg_temp",)]


def channels_listened_to(pooler: PgBouncer) -> list[str]:
    """In all server sessions of the pooler, each of which is held by a transaction meanwhile."""
    with contextlib.ExitStack() as stack:
        found: list[str] = []
        for _ in range(POOL_SIZE):
            held = stack.enter_context(psycopg.connect(pooler.dsn, prepare_threshold=None))
            found += [channel for (channel,) in held.execute("select pg_listening_channels()")]
        return found


def prepared_statements(pooler: PgBouncer) -> int:
    """How many its server connections hold, as far as they are met."""
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as connection:
        rows = [connection.execute("select count(*) from pg_prepared_statements").fetchone() for _ in range(10)]
    return sum(row[0] for row in rows if row)
