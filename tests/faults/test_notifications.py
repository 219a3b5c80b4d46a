"""The queue of announcements is full, because somebody listens and never comes to hear."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import App
from ferryman.errors import DatabaseError
from tests.support.sick_server import fills_notifications, fresh_database, joined_server
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman import Client
    from ferryman.embedded import EmbeddedPostgres

FULL = "54000"


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[str]:
    """Nobody else uses the server: its queue of announcements is everybody's."""
    with joined_server(server) as sick_server, fresh_database(sick_server, alone=True) as dsn:
        yield dsn


@fills_notifications
async def test_while_the_queue_of_announcements_is_full_jobs_that_are_not_announced_are_added_and_done(
    database: str, client: Client, connection: psycopg.Connection
) -> None:
    done: list[int] = []
    app = App(database)

    @app.task
    async def note(number: int) -> None:
        done.append(number)

    worker = worker_of(app, poll_interval=timedelta(milliseconds=50))
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen anything")
        async with running(worker):
            await client.add_raw_job("note", {"number": 1})
            await until(lambda: done == [1], "the worker works")
            listener.execute("begin")
            fill(connection)

            with pytest.raises(DatabaseError, match=FULL):
                await client.add_raw_job("note", {"number": 2})
            await client.add_raw_job("note", {"number": 3}, notify=False)

            await until(lambda: done == [1, 3], "a job that was not announced is found")
            listener.execute("rollback")
            # The server makes room when it is asked how full the queue is, as `ferryman doctor` does.
            await until(lambda: usage(connection) < 0.1, "the queue is read")
            await client.add_raw_job("note", {"number": 4})
            await until(lambda: done == [1, 3, 4], "announcements work again")
    assert (await client.counts()).total == 0


def fill(connection: psycopg.Connection) -> None:
    """Announce until the server takes no more."""
    with pytest.raises(psycopg.Error) as refused:
        for _ in range(10_000):
            connection.execute("select pg_notify('anything', repeat('x', 7900))")
    assert refused.value.sqlstate == FULL


def usage(connection: psycopg.Connection) -> float:
    row = connection.execute("select pg_notification_queue_usage()").fetchone()
    assert row is not None
    return float(row[0])
