"""One private PostgreSQL for each process of the run, and a fresh database for each test that asks for one."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ferryman import Client, SyncClient
from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Let processes that tests start heed signals, also when a shell has started the tests in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _no_database_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not find a database by accident."""
    for variable in [*os.environ]:
        if variable == "DATABASE_URL" or variable.startswith(("PG", "FERRYMAN_", "GRAPHILE_WORKER_")):
            monkeypatch.delenv(variable)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedPostgres]:
    """The PostgreSQL that all tests share. It loses data in a power cut, which tests do not need to survive."""
    with reachable_folder() as folder:
        # Autovacuum comes when it likes; tests that need it run VACUUM themselves.
        settings = {"fsync": "off", "max_connections": "300", "autovacuum": "off", "track_commit_timestamp": "on"}
        with EmbeddedPostgres(folder / "postgres", settings=settings, linger=timedelta()) as started:
            yield started


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for a server of the test's own."""
    with reachable_folder() as folder:
        yield folder


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A temporary folder that PostgreSQL's account can reach; pytest keeps its own folders to one account."""
    with tempfile.TemporaryDirectory(prefix="ferryman-tests-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture(scope="session")
def _template(server: EmbeddedPostgres) -> str:
    """A database with the schema installed, to be copied: far quicker than installing it for each test."""
    name = "ferryman_template"
    dsn = _create(server.dsn, name)
    with SyncClient(dsn) as client:
        client.migrate()
    return name


@pytest.fixture
def empty_database(server: EmbeddedPostgres) -> Iterator[str]:
    """The DSN of a fresh, empty database."""
    yield from _temporary(server.dsn, template="template0")


@pytest.fixture
def database(server: EmbeddedPostgres, _template: str) -> Iterator[str]:
    """The DSN of a fresh database with the schema installed."""
    yield from _temporary(server.dsn, template=_template)


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    async with Client(database) as opened:
        yield opened


@pytest.fixture
def sync_client(database: str) -> Iterator[SyncClient]:
    with SyncClient(database) as opened:
        yield opened


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    """A plain connection to look at tables, or to stand in for somebody else."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


def _temporary(dsn: str, *, template: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield _create(dsn, name, template)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _create(dsn: str, name: str, template: str = "template0") -> str:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    return make_conninfo(dsn, dbname=name)
