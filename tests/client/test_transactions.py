"""Adding jobs inside the caller's own transaction: they commit and roll back with it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import django
import pg8000
import psycopg
import psycopg2
import pytest
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from ferryman import Client, JobKeyMode, JobSpec, RawJobSpec, RescheduleJobOptions, SyncClient
from ferryman.errors import ConfigurationError, DatabaseError, SchemaMissingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HOSTILE = {"text": 'it\'s 100% $1 :name \\ "quoted" é🚢', "none": None}
QUEUED = JobSpec(queue_name="q:%s:1", delay=timedelta(hours=1), priority=-3, flags=["a", "b"], max_attempts=2)
KEYED = JobSpec(job_key="k:%(x)s", delay=timedelta(hours=2), job_key_mode=JobKeyMode.PRESERVE_RUN_AT)
DEDUPED = JobSpec(job_key="d", delay=timedelta(hours=3), job_key_mode=JobKeyMode.UNSAFE_DEDUPE, flags=[])


TRIGGER_WITHOUT_SEARCH_PATH = """
    create sequence notes;
    create function note() returns trigger language plpgsql as $$ begin perform nextval('notes'); return new; end $$;
    create trigger noted before insert on graphile_worker._private_jobs for each row execute function note()
"""


class UndoError(Exception):
    """Raised inside a transaction to make its owner roll back."""


def _url(dsn: str, driver: str) -> URL:
    parts = conninfo_to_dict(dsn)
    return URL.create(
        driver,
        username=str(parts["user"]),
        password=str(parts["password"]),
        database=str(parts["dbname"]),
        query={"host": str(parts["host"]), "port": str(parts["port"])},
    )


@asynccontextmanager
async def _psycopg_async(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=dict_row) as connection:
        yield connection


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn=_as_url(dsn))
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn=_as_url(dsn), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def _sqlalchemy_asyncpg_core(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "postgresql+asyncpg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _sqlalchemy_psycopg_session(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "postgresql+psycopg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@contextmanager
def _psycopg_sync(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def _sqlalchemy_core(dsn: str) -> Iterator[Any]:
    engine = create_engine(_url(dsn, "postgresql+psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _sqlalchemy_session(dsn: str) -> Iterator[Any]:
    engine = create_engine(_url(dsn, "postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def _django(dsn: str) -> Iterator[Any]:
    with _django_atomic(dsn) as wrapper:
        yield wrapper


@contextmanager
def _django_alias(dsn: str) -> Iterator[Any]:
    with _django_atomic(dsn):
        yield "default"


@contextmanager
def _django_atomic(dsn: str) -> Iterator[Any]:
    with _django_connection(dsn) as wrapper, transaction.atomic(using="default"):
        yield wrapper


@contextmanager
def _django_connection(dsn: str) -> Iterator[Any]:
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    parts = conninfo_to_dict(dsn)
    connections.databases["default"] = connections.configure_settings(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                "USER": parts["user"],
                "PASSWORD": parts["password"],
                "HOST": parts["host"],
                "PORT": parts["port"],
            }
        }
    )["default"]
    try:
        yield connections["default"]
    finally:
        connections["default"].close()
        del connections["default"]


def _as_url(dsn: str) -> str:
    return _url(dsn, "postgresql").render_as_string(hide_password=False)


ASYNC_KINDS = [
    _psycopg_async, _asyncpg, _asyncpg_pool, _sqlalchemy_asyncpg_core, _sqlalchemy_psycopg_session,
]  # fmt: skip
_of_django = pytest.mark.needs_postgres(15, "Django refuses older servers")
SYNC_KINDS = [
    _psycopg_sync, _sqlalchemy_core, _sqlalchemy_session,
    pytest.param(_django, marks=_of_django), pytest.param(_django_alias, marks=_of_django),
]  # fmt: skip
AsyncKind = Any
SyncKind = Any


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_async_adds_commit_with_the_caller(client: Client, database: str, kind: AsyncKind) -> None:
    async with kind(database) as using:
        plain = await client.add_raw_job("x", HOSTILE, QUEUED, using=using)
        many = await client.add_raw_jobs(
            [RawJobSpec("y", n, KEYED if n == 1 else QUEUED) for n in range(3)], using=using
        )
        deduped = await client.add_raw_job("z", {}, DEDUPED, using=using)
        inside = await client.get_job(plain.id, using=using)
        assert await client.get_job(plain.id) is None

    assert inside == plain
    for job in (plain, *many, deduped):
        assert await client.get_job(job.id) == job


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_async_adds_roll_back_with_the_caller(client: Client, database: str, kind: AsyncKind) -> None:
    with pytest.raises(UndoError):
        async with kind(database) as using:
            await client.add_raw_job("x", {}, using=using)
            await client.add_raw_jobs([RawJobSpec("x", {}, KEYED), RawJobSpec("x", {})], using=using)
            raise UndoError

    assert (await client.counts()).total == 0


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_blocking_adds_commit_with_the_caller(sync_client: SyncClient, database: str, kind: SyncKind) -> None:
    with kind(database) as using:
        plain = sync_client.add_raw_job("x", HOSTILE, QUEUED, using=using)
        many = sync_client.add_raw_jobs(
            [RawJobSpec("y", n, KEYED if n == 1 else QUEUED) for n in range(3)], using=using
        )
        deduped = sync_client.add_raw_job("z", {}, DEDUPED, using=using)
        inside = sync_client.get_job(plain.id, using=using)
        assert sync_client.get_job(plain.id) is None

    assert inside == plain
    for job in (plain, *many, deduped):
        assert sync_client.get_job(job.id) == job


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_blocking_adds_roll_back_with_the_caller(sync_client: SyncClient, database: str, kind: SyncKind) -> None:
    with pytest.raises(UndoError), kind(database) as using:
        sync_client.add_raw_job("x", {}, using=using)
        sync_client.add_raw_jobs([RawJobSpec("x", {}, KEYED), RawJobSpec("x", {})], using=using)
        raise UndoError

    assert sync_client.counts().total == 0


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_every_other_operation_takes_a_borrowed_connection_too(
    sync_client: SyncClient, database: str, kind: SyncKind
) -> None:
    a, b, _ = sync_client.add_raw_jobs([RawJobSpec("x", n, JobSpec(job_key=f"k{n}")) for n in range(3)])
    with kind(database) as using:
        sync_client.reschedule_jobs([a.id], RescheduleJobOptions(priority=9), using=using)
        sync_client.permanently_fail_jobs([a.id], "no", using=using)
        sync_client.complete_jobs([b.id], using=using)
        sync_client.remove_job("k2", using=using)
        sync_client.force_unlock_workers(["nobody"], using=using)
        assert [job.id for job in sync_client.list_jobs(flags=None, state="failed", using=using).jobs] == [a.id]
        assert sync_client.counts(using=using).total == 1
        assert sync_client.counts().total == 3

    assert [job.id for job in sync_client.list_jobs().jobs] == [a.id]


async def test_a_client_that_only_borrows_need_not_be_opened(database: str) -> None:
    client = Client(schema="graphile_worker")
    async with await psycopg.AsyncConnection.connect(database) as connection:
        job = await client.add_raw_job("x", {}, using=connection)

    async with Client(database) as other:
        assert await other.get_job(job.id) == job


async def test_a_blocking_connection_is_not_taken_by_the_async_client(client: Client, database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(ConfigurationError, match="Use it with SyncClient"):
        await client.add_raw_job("x", {}, using=connection)


async def test_an_async_connection_is_not_taken_by_the_blocking_client(sync_client: SyncClient, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        with pytest.raises(ConfigurationError, match="Use it with Client"):
            sync_client.add_raw_job("x", {}, using=connection)


@pytest.mark.parametrize("bad", [object(), 7, print])
def test_something_that_is_no_connection_is_refused(sync_client: SyncClient, bad: object) -> None:
    with pytest.raises(ConfigurationError, match="no connection that Ferryman knows"):
        sync_client.add_raw_job("x", {}, using=bad)


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_missing_schema_is_named_whatever_the_driver(empty_database: str, kind: AsyncKind) -> None:
    client = Client(schema="nowhere")

    with pytest.raises(SchemaMissingError, match='the schema "nowhere" is not installed'):
        async with kind(empty_database) as using:
            await client.add_raw_job("x", {}, using=using)


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_a_missing_schema_is_named_in_blocking_code_too(empty_database: str, kind: SyncKind) -> None:
    client = SyncClient(schema='no"where:%s')

    with pytest.raises(SchemaMissingError, match="is not installed"), kind(empty_database) as using:
        client.add_raw_job("x", {}, using=using)


async def test_a_trigger_that_relies_on_the_search_path_is_told_from_a_schema_that_is_missing(
    client: Client, database: str, connection: psycopg.Connection
) -> None:
    connection.execute(TRIGGER_WITHOUT_SEARCH_PATH)
    with_key = JobSpec(job_key="key")
    told = r'"notes" does not exist. The function public.note\(\) asked .*search_path'
    async with _psycopg_async(database) as with_path:
        await client.add_raw_job("x", using=with_path)
    async with _asyncpg(database) as without_path:
        await without_path.execute("set search_path = pg_catalog")
        for using, spec in ((None, None), (None, with_key), (without_path, None)):
            with pytest.raises(DatabaseError, match=told):
                await client.add_raw_job("x", spec=spec, using=using)
    connection.execute("alter function note() set search_path = public")
    await client.add_raw_job("x", spec=with_key)
    assert connection.execute("select nextval('notes')").fetchone() == (3,), "two jobs were noted"


@asynccontextmanager
async def _psycopg_async_autocommit(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def _asyncpg_alone(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn=_as_url(dsn))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _sqlalchemy_asyncpg_autocommit(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "postgresql+asyncpg"), isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _sqlalchemy_psycopg_session_autocommit(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    try:
        async with AsyncSession(engine) as session:
            yield session
    finally:
        await engine.dispose()


@contextmanager
def _psycopg_sync_autocommit(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@contextmanager
def _sqlalchemy_session_autocommit(dsn: str) -> Iterator[Any]:
    engine = create_engine(_url(dsn, "postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    try:
        with Session(engine) as session:
            yield session
    finally:
        engine.dispose()


@contextmanager
def _django_alone(dsn: str) -> Iterator[Any]:
    with _django_connection(dsn):
        yield "default"


@contextmanager
def _django_copy(dsn: str) -> Iterator[Any]:
    with _django_connection(dsn) as wrapper:
        copy = wrapper.copy()
        try:
            yield copy
            assert copy.get_autocommit(), "it is as it was for the caller"
        finally:
            copy.close()


def _refuse_keys(connection: psycopg.Connection) -> None:
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'no' using errcode = '23514'; end $$"
    )
    connection.execute(
        "create trigger refuse before insert on graphile_worker._private_jobs "
        "for each row when (new.key is not null) execute function public.refuse()"
    )


MIXED = [RawJobSpec("x", {}), RawJobSpec("x", {}, KEYED)]


@pytest.mark.parametrize(
    "kind",
    [
        _psycopg_async_autocommit,
        _asyncpg_alone,
        _sqlalchemy_asyncpg_autocommit,
        _sqlalchemy_psycopg_session_autocommit,
    ],
)
async def test_many_async_adds_are_all_or_none_on_a_connection_without_a_transaction(
    client: Client, connection: psycopg.Connection, database: str, kind: AsyncKind
) -> None:
    _refuse_keys(connection)
    async with kind(database) as using:
        with pytest.raises(DatabaseError, match="23514"):
            await client.add_raw_jobs(MIXED, using=using)
        assert (await client.counts()).total == 0

        connection.execute("drop trigger refuse on graphile_worker._private_jobs")
        await client.add_raw_jobs(MIXED, using=using)
        assert (await client.counts()).total == 2


@pytest.mark.parametrize(
    "kind",
    [
        _psycopg_sync_autocommit,
        _sqlalchemy_session_autocommit,
        pytest.param(_django_alone, marks=_of_django),
        pytest.param(_django_copy, marks=_of_django),
    ],
)
def test_many_blocking_adds_are_all_or_none_on_a_connection_without_a_transaction(
    sync_client: SyncClient, connection: psycopg.Connection, database: str, kind: SyncKind
) -> None:
    _refuse_keys(connection)
    with kind(database) as using:
        with pytest.raises(DatabaseError, match="23514"):
            sync_client.add_raw_jobs(MIXED, using=using)
        assert sync_client.counts().total == 0

        connection.execute("drop trigger refuse on graphile_worker._private_jobs")
        sync_client.add_raw_jobs(MIXED, using=using)
        assert sync_client.counts().total == 2


@pytest.mark.parametrize("kind", [_psycopg_async_autocommit, _asyncpg_alone])
async def test_a_connection_is_in_no_transaction_after_an_add_was_cancelled_while_it_began_one(
    client: Client, database: str, kind: AsyncKind
) -> None:
    async with kind(database) as using:
        adding = asyncio.create_task(client.add_raw_jobs(MIXED, using=using))
        await asyncio.sleep(0)  # it has sent BEGIN and waits for the answer
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding

        await using.execute("create table public.kept ()")
        async with using.transaction():
            await using.execute("create table public.kept_too ()")

    with psycopg.connect(database) as other:
        kept = other.execute("select to_regclass('kept') is not null, to_regclass('kept_too') is not null").fetchone()
    assert kept == (True, True)
    assert (await client.counts()).total == 0


def _with_enough_iterations(connection: psycopg.Connection, role: str) -> None:
    """pg8000 accepts no password that was hashed as quickly as those of tests are."""
    if connection.info.server_version >= 160000:
        connection.execute("set scram_iterations = 4096")
    connection.execute(f"create role {role} superuser login password 'known'")


def test_a_connection_of_pg8000_is_refused_before_anything_is_sent(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    parts = conninfo_to_dict(database)
    role = f"of_pg8000_{parts['dbname']}"
    _with_enough_iterations(connection, role)
    place = {"unix_sock": f"{parts['host']}/.s.PGSQL.{parts['port']}"}
    url = URL.create("postgresql+pg8000", username=role, password="known", database=str(parts["dbname"]), query=place)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        alone = pg8000.connect(user=role, password="known", database=parts["dbname"], **place)
        with pytest.raises(ConfigurationError, match=r"using= got pg8000\.\w+\.Connection, which is no connection"):
            sync_client.add_raw_job("x", {}, using=alone)
        alone.close()
        with engine.connect() as using, pytest.raises(ConfigurationError, match=r"of pg8000.* Nothing was sent\."):
            sync_client.add_raw_jobs(MIXED, using=using)
    finally:
        engine.dispose()
        connection.execute(f"drop role {role}")

    assert sync_client.counts().total == 0


def _django_on_psycopg2(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A connection of Django as it is where only psycopg2 is installed."""
    with _django_connection(dsn) as wrapper, monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith("django.db.backends.postgresql")]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "psycopg", None)
        from django.db.backends.postgresql import base  # noqa: PLC0415 - once more, without psycopg

        assert base.Database is psycopg2
        return base.DatabaseWrapper(dict(wrapper.settings_dict), "default")


@_of_django
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_times_have_a_zone_also_where_django_leaves_zones_out(
    sync_client: SyncClient, database: str, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    with _django_connection(database) as wrapper:
        using = wrapper if driver == "psycopg" else _django_on_psycopg2(database, monkeypatch)
        monkeypatch.setattr(settings, "USE_TZ", False)
        later = sync_client.add_raw_job("x", HOSTILE, JobSpec(run_at=in_an_hour), using=using)
        keyed = sync_client.add_raw_job("x", {}, JobSpec(run_at=in_an_hour, job_key="k"), using=using)

        assert sync_client.get_job(later.id, using=using) == later == sync_client.get_job(later.id)
        assert sync_client.get_job(keyed.id) == keyed
        with using.cursor() as cursor:
            cursor.execute("select now()")
            assert cursor.fetchone()[0].tzinfo is None, "it is as it was for the caller"
        using.close()


async def test_dates_are_read_on_a_borrowed_connection_whatever_style_it_has(client: Client, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, options="-c datestyle=German") as using:
        keyed = await client.add_raw_job("x", HOSTILE, KEYED, using=using)
        added = await client.schedules.add("* * * * * x", using=using)
        [schedule] = await client.schedules.list(using=using)
    assert await client.get_job(keyed.id) == keyed
    assert schedule.created_at == added.created_at
    with psycopg.connect(database, options="-c datestyle=German") as blocking, SyncClient(database) as sync_client:
        assert sync_client.get_job(keyed.id, using=blocking) == keyed


def test_a_driver_that_cannot_translate_is_not_taken_for_a_database_that_does_not_answer(
    sync_client: SyncClient, database: str
) -> None:
    engine = create_engine(_url(database, "postgresql+psycopg"), connect_args={"options": "-c datestyle=German"})
    with engine.connect() as using, pytest.raises(DatabaseError, match=r"cannot translate .*DateStyle ISO\."):
        sync_client.add_raw_job("x", {}, using=using)
    engine.dispose()
    with (
        psycopg.connect(database, client_encoding="LATIN1") as using,
        pytest.raises(DatabaseError, match=r"cannot translate .*give it client_encoding UTF8"),
    ):
        sync_client.add_raw_job("x", "🚢", using=using)
