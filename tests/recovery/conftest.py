"""A server that has been up for long, so that the age of a heartbeat counts in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import Client, SyncClient
from tests.support.fleet import Fleet
from tests.support.history import History
from tests.support.stand_ins import stand_in_for
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PRETENDED_START = """
    create function pg_catalog.pg_postmaster_start_time() returns timestamptz language sql as $$
        select coalesce(now() - current_setting('pretended.uptime', true)::interval, real_pg_postmaster_start_time())
    $$
"""


@pytest.fixture
def long_up(database: str) -> str:
    """The database, to connections that believe that the server was started a year ago."""
    return _up_for(database, "P1Y")


@pytest.fixture
def just_up(database: str) -> str:
    """The database, to connections that believe that the server was started a moment ago."""
    return _up_for(database, "PT1S")


def _up_for(database: str, time: str) -> str:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(stand_in_for("pg_postmaster_start_time", PRETENDED_START))
    return make_conninfo(database, options=f"-c pretended.uptime={time}")


@pytest.fixture
def tables(database: str) -> Iterator[Tables]:
    """The tables, to be set up and looked at."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield Tables(connection)


@pytest.fixture
async def sweeper(long_up: str) -> AsyncIterator[Client]:
    """A client that sweeps."""
    async with Client(long_up) as opened:
        yield opened


@pytest.fixture
def sync_sweeper(long_up: str) -> Iterator[SyncClient]:
    """A blocking client that sweeps."""
    with SyncClient(long_up) as opened:
        yield opened


@pytest.fixture
def fleet(database: str, tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes with recovery."""
    history = History(tmp_path / "history.jsonl")
    made = Fleet(database, history)
    yield made
    made.close()
    history.close()
