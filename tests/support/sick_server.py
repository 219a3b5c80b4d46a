"""A server that can fall ill in every way: one of its own, because some ways concern everybody on it."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres
from tests.support.server import reachable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "fsync": "off",
    "max_connections": "100",
    "max_prepared_transactions": "5",
    "wal_level": "logical",
    "track_commit_timestamp": "on",  # for `tests.support.workers.jobs`
    "max_notify_queue_pages": "64",  # the fewest: half a megabyte fills them
    "autovacuum_naptime": "1h",  # on, as it should be, but it comes when no test expects it
}
TEMPLATE = "ferryman_health_template"
_numbers = itertools.count(1)


@contextmanager
def server_of_its_own() -> Iterator[EmbeddedPostgres]:
    """Started, with a database to copy."""
    with (
        reachable_folder() as folder,
        EmbeddedPostgres(folder / "postgres", settings=SETTINGS, linger=timedelta()) as started,
    ):
        with SyncClient(create_database(started.dsn, TEMPLATE, "template0")) as client:
            client.migrate()
        yield started


@contextmanager
def fresh_database(server: EmbeddedPostgres) -> Iterator[str]:
    """A database with the schema installed, for one test."""
    name = f"health_{os.getpid()}_{next(_numbers)}"
    yield create_database(server.dsn, name, TEMPLATE)
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def create_database(dsn: str, name: str, template: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    return make_conninfo(dsn, dbname=name)
