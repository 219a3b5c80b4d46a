"""A fresh install of ours has the objects of graphile-worker 0.18 to the last detail, on every server at hand."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman.embedded import EmbeddedPostgres, ServerBinaries, find_binaries
from ferryman.errors import EmbeddedServerError
from ferryman.schema import migrate
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.catalogue import OURS, catalogue
from tests.support.server import reachable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORTED_MAJORS = (14, 15, 16, 17, 18)


@cache
def _servers() -> list[ServerBinaries]:
    found = []
    for major in SUPPORTED_MAJORS:
        try:
            found.append(find_binaries(major=major))
        except EmbeddedServerError:
            continue
    return found


@pytest.fixture(params=_servers(), ids=lambda binaries: f"PostgreSQL {binaries.major}")
def two_databases(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    """Two empty databases on one server of the version at hand."""
    with reachable_folder() as folder:
        settings = {"fsync": "off"}
        with EmbeddedPostgres(folder / "postgres", binaries=request.param, settings=settings) as started:
            with psycopg.connect(started.dsn, autocommit=True) as connection:
                connection.execute("create database ours")
                connection.execute("create database theirs")
            yield make_conninfo(started.dsn, dbname="ours"), make_conninfo(started.dsn, dbname="theirs")


def test_every_object_is_the_same_but_for_function_bodies(two_databases: tuple[str, str]) -> None:
    ours, theirs = two_databases
    carry_out(ours, migrate)
    nodes.run("0.18", "migrate", theirs)
    assert catalogue(ours, without=OURS) == catalogue(theirs)


def test_the_comparison_sees_a_difference(database: str) -> None:
    before = catalogue(database)
    with psycopg.connect(database) as connection:
        connection.execute("comment on column graphile_worker._private_jobs.flags is 'changed'")
        connection.execute("grant select on graphile_worker.jobs to public")
        connection.execute("alter function graphile_worker.remove_job stable")
    after = catalogue(database)
    assert len(set(before) - set(after)) == 3
