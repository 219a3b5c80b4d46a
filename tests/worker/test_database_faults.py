"""A worker outlives its connections, says so once at the start and once at the end, and asks little when idle."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman import App, WorkerOptions, WorkerRecoveryConfig
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import jobs, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman import Client
    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture
def app(database: str) -> App:
    """An application whose connections can be told from those of others."""
    return App(make_conninfo(database, application_name="the worker"))


def backends(connection: psycopg.Connection, that: str = "true") -> Sequence[int]:
    """The worker's connections."""
    rows = connection.execute(
        "select pid from pg_stat_activity"
        f" where datname = current_database() and application_name = 'the worker' and {that}"
    )
    return [pid for (pid,) in rows]


def cut(connection: psycopg.Connection, pids: Sequence[int]) -> None:
    connection.execute("select pg_terminate_backend(pid, 5000) from unnest(%s::int[]) as pid", [list(pids)])


async def test_a_worker_goes_on_when_each_of_its_connections_is_cut_in_turn(
    app: App, client: Client, connection: psycopg.Connection, ran: list[int]
) -> None:
    async with running(worker_of(app)) as life:
        for number in range(4):
            await client.add_raw_job("note", {"number": number})
            await until(lambda number=number: number in ran, "the job runs")
            await until(lambda: jobs(connection) == [], "it is settled")
            mine = backends(connection)
            cut(connection, [mine[number % len(mine)]])
        await client.add_raw_job("note", {"number": 99})
        await until(lambda: 99 in ran, "a job runs after all that")
        assert not life.done()

    assert sorted(ran) == [0, 1, 2, 3, 99]


async def test_trouble_is_logged_once_when_it_begins_and_once_when_it_ends(
    app: App, client: Client, connection: psycopg.Connection, ran: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ferryman.worker")
    connection.execute("alter table graphile_worker._private_jobs rename column run_at to hidden")
    poll = timedelta(milliseconds=20)
    async with running(worker_of(app, use_notification_delivery=False, poll_interval=poll)):
        await until(lambda: logged(caplog, "duty_failed", duty="claiming jobs"), "a claim failed")
        connection.execute("alter table graphile_worker._private_jobs rename column hidden to run_at")
        await until(lambda: logged(caplog, "duty_works_again", duty="claiming jobs"), "claims work again")
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [1], "the job runs")

    assert len([record for record in caplog.records if getattr(record, "duty", "") == "claiming jobs"]) == 2


async def test_a_listener_that_is_cut_hears_what_came_meanwhile(
    app: App, client: Client, connection: psycopg.Connection, ran: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ferryman.worker")

    def listening() -> Sequence[int]:
        return backends(connection, "query ilike 'listen%'")

    async with running(worker_of(app)):
        await until(lambda: listening() != [], "the worker listens")
        cut(connection, listening())
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [1], "the job that nobody heard of runs")
        await until(lambda: logged(caplog, "duty_works_again", duty="listening for new jobs"), "the listener is back")

    assert len([record for record in caplog.records if getattr(record, "duty", "") == "listening for new jobs"]) == 2


async def test_an_idle_worker_holds_few_connections(
    app: App, client: Client, connection: psycopg.Connection, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.database.idle_connections.SECONDS_IDLE", 0.2)
    recovery = WorkerRecoveryConfig(enabled=True)
    # Each use of the pool closes what has been idle for too long, and a worker uses it whenever it polls.
    async with running(worker_of(app, recovery=recovery, poll_interval=timedelta(milliseconds=50))):
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [1] and jobs(connection) == [], "the worker is idle")
        await until(lambda: len(backends(connection)) == 3, "one for signs of life, one to listen, one more")


@dataclass
class Cost:
    """What a worker asked of its database in some time."""

    transactions: int
    sessions: int
    seconds: float


async def test_an_idle_worker_asks_at_most_once_a_second(own_server: EmbeddedPostgres) -> None:
    """On a server of its own: who listens takes part when others announce much, in any database.

    Elapsed time is only an upper bound here. A busy machine makes the worker ask less often, never more.
    """
    app = App(own_server.dsn)

    @app.task
    async def nothing() -> None: ...

    async def cost_of_a_life_of(seconds: float) -> Cost:
        (transactions, sessions), since = counts(), time.monotonic()
        poll_interval, recovery = WorkerOptions().poll_interval, WorkerRecoveryConfig(enabled=True)
        # With one connection, since opening one takes transactions, and some lives would open more than others.
        async with running(worker_of(app, poll_interval=poll_interval, recovery=recovery, max_connections=1)):
            await asyncio.sleep(seconds)
        # Connections report what they did for certain only when they end.
        await until(lambda: connections() == 0, "the worker's connections are gone")
        after = counts()
        return Cost(after[0] - transactions, after[1] - sessions, time.monotonic() - since)

    name = conninfo_to_dict(app.settings.database_url)["dbname"]

    def connections() -> int:
        [(count,)] = observer.execute("select count(*) from pg_stat_activity where datname = %s", [name])
        return count

    def counts() -> tuple[int, int]:
        statement = "select xact_commit + xact_rollback, sessions from pg_stat_database where datname = %s"
        [(transactions, sessions)] = observer.execute(statement, [name])
        return transactions, sessions

    # From outside, so that looking does not count.
    with psycopg.connect(make_conninfo(own_server.dsn, dbname="template1"), autocommit=True) as observer:
        # So long that it does not matter if a poll, a beat or a look at the crontabs falls into one life only.
        short, long = await cost_of_a_life_of(3.0), await cost_of_a_life_of(43.0)

    # By the time that it really took, since a machine may pause us; after a long pause connections are made anew.
    preparations = 2  # of the claim and of the beat, once each, when they have been used for a while
    reunions = max(0, long.sessions - short.sessions) * short.transactions
    seconds = long.seconds - short.seconds
    assert long.transactions - short.transactions <= seconds + preparations + reunions, (short, long)
