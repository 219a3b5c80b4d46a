"""PostgreSQL dies under a worker, whole or in parts; the worker goes on by itself."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.crash_site import CrashSite
from tests.support.own_servers import postmaster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.history import History

pytestmark = pytest.mark.program

NAME = "the worker"


@pytest.fixture
def own_site(own_server: EmbeddedPostgres, history: History) -> Iterator[CrashSite]:
    with closing(CrashSite(own_server.dsn, history)) as made:
        yield made


STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "killed": signal.SIGKILL}
"""What `pg_ctl stop -m` sends, and worse."""


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
async def test_jobs_survive_the_end_of_the_server(
    own_server: EmbeddedPostgres, own_site: CrashSite, stop: str, prefetch: int | None
) -> None:
    jobs = await own_site.add(90, queues=[None, "a", "b"], seconds=0.01)
    own_site.start(prefetch=prefetch)
    for done in (15, 45):
        await until(lambda done=done: len(own_site.history.jobs("ended")) >= done, f"{done} jobs ended")
        stopped = postmaster(own_server)
        assert stopped is not None
        os.kill(stopped, STOPS[stop])
        await until(lambda stopped=stopped: postmaster(own_server) not in {None, stopped}, "the server is back")

    await own_site.all_done()

    assert sorted(own_site.history.jobs("started")) == jobs
    own_site.check()


async def test_jobs_survive_the_crash_of_one_backend(own_server: EmbeddedPostgres, own_site: CrashSite) -> None:
    """PostgreSQL then ends all others too and recovers from its log."""
    jobs = await own_site.add(60, queues=[None, "a", "b"], seconds=0.01)
    worker = own_site.start(make_conninfo(own_site.dsn, application_name=NAME))
    await until(lambda: len(own_site.history.jobs("ended")) >= 15, "15 jobs ended")
    with psycopg.connect(own_site.dsn, autocommit=True) as connection:
        [(backend, *_), *_] = connection.execute(
            "select pid from pg_stat_activity where application_name = %s", [NAME]
        ).fetchall()
        os.kill(backend, signal.SIGKILL)
        await until(lambda: was_cut(connection), "the server has noticed")
    await until(lambda: worker.logged("duty_failed"), "the worker has noticed")
    await until(lambda: postmaster(own_server) is not None, "the server is back")

    await own_site.all_done()

    assert sorted(own_site.history.jobs("started")) == jobs
    own_site.check()


def was_cut(connection: psycopg.Connection) -> bool:
    try:
        connection.execute("select")
    except psycopg.OperationalError:
        return True
    return False


async def test_jobs_are_done_once_while_each_connection_is_terminated_in_turn(
    site: CrashSite, connection: psycopg.Connection
) -> None:
    jobs = await site.add(80, queues=[None, "a", "b"], seconds=0.01)
    site.start(make_conninfo(site.dsn, application_name=NAME))
    cut: set[int] = set()
    for done in range(10, 70, 10):
        await until(lambda done=done: len(site.history.jobs("ended")) >= done, f"{done} jobs ended")
        await until(lambda: terminate_one(connection, cut), "a connection is terminated")

    await site.all_done()

    assert sorted(site.history.jobs("started")) == jobs
    site.check()


def terminate_one(connection: psycopg.Connection, cut: set[int]) -> bool:
    """Terminate the worker's oldest connection, the listening one included; whether there was one."""
    row = connection.execute(
        "select pid, pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and application_name = %s and pid <> all (%s)"
        " order by backend_start limit 1",
        [NAME, list(cut)],
    ).fetchone()
    cut.update(row[:1] if row else ())
    return row is not None


async def test_a_listener_that_was_cut_hears_again(site: CrashSite, connection: psycopg.Connection) -> None:
    """The worker polls too rarely to find the jobs by itself."""
    worker = site.start(make_conninfo(site.dsn, application_name=NAME), poll_seconds=600)
    await worker.ready()
    await until(lambda: listener(connection) is not None, "the worker listens")
    cut = listener(connection)
    connection.execute("select pg_terminate_backend(%s, 5000)", [cut])
    missed = await site.add(1)
    await until(lambda: site.history.jobs("settled") == missed, "a job that was announced to nobody is found")
    await until(lambda: listener(connection) not in {None, cut}, "the worker listens again")

    heard = await site.add(1)

    await until(lambda: site.history.jobs("settled") == [*missed, *heard], "an announced job is found")
    site.check()


def listener(connection: psycopg.Connection) -> int | None:
    row = connection.execute(
        "select pid from pg_stat_activity"
        " where datname = current_database() and application_name = %s and query ilike 'listen%%'",
        [NAME],
    ).fetchone()
    return None if row is None else row[0]
