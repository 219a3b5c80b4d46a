"""A server that can fall ill in every way: not the common one, because some ways concern everybody on it.

There is one for the whole run. Whoever makes the server itself ill must be alone on it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres
from tests.support.once import once
from tests.support.server import create_database, quicken_logins
from tests.support.versions import server_binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "fsync": "off",
    "max_connections": "100",
    "max_prepared_transactions": "5",
    "wal_level": "logical",
    "track_commit_timestamp": "on",  # for `tests.support.workers.jobs`
    "autovacuum_naptime": "1h",  # on, as it should be, but it comes when no test expects it
}
FEW_NOTIFICATIONS = {"max_notify_queue_pages": "64"}  # the fewest: half a megabyte fills them
FEW_NOTIFICATIONS_MAJOR = 17
fills_notifications = pytest.mark.needs_postgres(
    FEW_NOTIFICATIONS_MAJOR, "an older server's queue of notifications takes 8 GB"
)
TEMPLATE = "ferryman_health_template"
_numbers = itertools.count(1)


@contextmanager
def joined_server(beside: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """Started or joined in a folder beside that of the common server, with a database to copy."""
    binaries = server_binaries()
    settings = SETTINGS | (FEW_NOTIFICATIONS if binaries.major >= FEW_NOTIFICATIONS_MAJOR else {})
    folder = beside.folder.with_name("sick")
    with EmbeddedPostgres(folder, binaries=binaries, settings=settings, linger=timedelta()) as started:
        once("health template", lambda: _make_template(started.dsn))
        yield started


@contextmanager
def fresh_database(server: EmbeddedPostgres, template: str = TEMPLATE, *, alone: bool = False) -> Iterator[str]:
    """A database for one test, which has the schema installed unless another template is named."""
    with company(server, alone=alone), copied_database(server.dsn, template) as dsn:
        yield dsn


@contextmanager
def copied_database(dsn: str, template: str) -> Iterator[str]:
    """A copy of a database on any server, which goes at the end of the block."""
    name = f"health_{os.getpid()}_{next(_numbers)}"
    yield create_database(dsn, name, template)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def company(server: EmbeddedPostgres, *, alone: bool = False) -> Iterator[None]:
    """Use the server among other tests of all processes, or without them."""
    with server.folder.with_name("sick.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _make_template(dsn: str) -> None:
    quicken_logins(dsn)
    with SyncClient(create_database(dsn, TEMPLATE)) as client:
        client.migrate()
