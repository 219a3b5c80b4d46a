"""A scheduler in the background, as in a worker: it waits, survives database errors, and costs little."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg

import ferryman.cron.scheduler
from ferryman import App, CrontabFill, WorkerContext
from ferryman.cron.clock import SystemClock
from ferryman.cron.scheduler import CronScheduler
from ferryman.hooks import CronJobScheduled, HookRegistry
from tests.support.clock import ManualClock
from tests.support.logs import logged
from tests.support.schedulers import HOUR, MINUTE, NOON, fired, known, make_known, scheduler_at
from tests.support.waiting import end_sessions_that_wait, somebody_waits_for_a_lock, until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from ferryman import Client


@asynccontextmanager
async def _running(scheduler: CronScheduler) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(scheduler.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_it_wakes_at_each_minute(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON + timedelta(seconds=10))
    async with _running(scheduler):
        for number in range(3):
            await until(lambda: clock.sleeps_until is not None, "it sleeps")
            assert clock.sleeps_until == NOON + (number + 1) * MINUTE
            assert len(fired(connection)) == number + 1
            clock.set(clock.sleeps_until)
            await until(lambda: clock.sleeps_until is None or clock.sleeps_until > clock.now(), "it woke")


async def test_a_worker_schedules_the_crontabs_of_its_options_and_of_its_app_beside_its_jobs(
    database: str, client: Client, connection: psycopg.Connection
) -> None:
    """Jobs that are added while it runs are run too: scheduling and working happen together."""
    ran: list[str] = []
    app = App(database)

    @app.task
    async def tick(ctx: WorkerContext) -> None:
        ran.append(f"tick {ctx.payload['_cron']['backfilled']}")

    @app.cron("* * * * *", fill=CrontabFill.hours(1))
    @app.task
    async def tock() -> None:
        ran.append("tock")

    @app.task
    async def note() -> None:
        ran.append("note")

    for name in ("tick", "tock"):
        make_known(connection, name, datetime.now(UTC) - HOUR, datetime.now(UTC) - 3 * MINUTE)
    async with running(worker_of(app, crontabs="* * * * * tick ?fill=1h")):
        await client.add_job(note.job())
        await until(lambda: {"tick True", "tock", "note"} <= {*ran}, "crontabs have fired, and all jobs run")


async def test_a_connection_that_is_cut_in_the_middle_of_scheduling_costs_nothing(
    client: Client,
    database: str,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_known(connection, "tick", NOON - HOUR)
    hooks, heard = HookRegistry(), []
    hooks.on(CronJobScheduled, heard.append)
    scheduler, clock = scheduler_at(client, NOON, hooks=hooks)
    monkeypatch.setattr(ferryman.cron.scheduler, "LOCK_WAIT", HOUR)
    with psycopg.connect(database) as holder:
        holder.execute("select from graphile_worker._private_known_crontabs for update")
        async with _running(scheduler) as task:
            await until(lambda: somebody_waits_for_a_lock(connection), "the scheduler waits for its crontab")
            for _ in range(2):
                await until(lambda: somebody_waits_for_a_lock(connection), "it tries again")
                end_sessions_that_wait(connection)
            assert fired(connection) == []
            holder.rollback()
            await until(lambda: clock.sleeps_until is not None, "the tick is over")
            assert not task.done()
    assert fired(connection) == [NOON]
    assert known(connection) == (NOON - HOUR, NOON)
    assert len(heard) == 1
    assert len(logged(caplog, "duty_failed", duty="scheduling crontabs")) == 1


async def test_a_database_without_the_tables_does_not_end_it(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute("alter table graphile_worker._ferryman_schedules rename to elsewhere")
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON)
    async with _running(scheduler):
        await until(lambda: logged(caplog, "duty_failed", duty="scheduling crontabs"), "it complains")
        assert fired(connection) == []
        connection.execute("alter table graphile_worker.elsewhere rename to _ferryman_schedules")
        await until(lambda: clock.sleeps_until is not None, "the tick is over")
    assert fired(connection) == [NOON]


async def test_minutes_missed_while_the_database_was_away_are_made_up_for(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON)
    async with _running(scheduler):
        await until(lambda: clock.sleeps_until is not None, "the first minute is done")
        connection.execute("alter table graphile_worker._ferryman_schedules rename to elsewhere")
        clock.advance(MINUTE)
        await until(lambda: clock.sleeps_until is None, "it tries")
        clock.advance(3 * MINUTE)
        connection.execute("alter table graphile_worker.elsewhere rename to _ferryman_schedules")
        await until(lambda: clock.sleeps_until is not None, "it works again")
    assert fired(connection) == [NOON + number * MINUTE for number in range(5)]


async def test_an_idle_scheduler_asks_once_a_minute(client: Client, connection: psycopg.Connection) -> None:
    calls = []
    scheduler, clock = scheduler_at(client, NOON, ())
    database = scheduler._database
    fetch, run = database.fetch, database.run
    database.fetch = lambda call: calls.append(call) or fetch(call)
    database.run = lambda steps: calls.append(steps) or run(steps)
    async with _running(scheduler):
        for number in range(1, 11):
            await until(lambda: clock.sleeps_until is not None, "it sleeps")
            assert len(calls) == number
            clock.set(clock.sleeps_until)
            await until(lambda: clock.sleeps_until is None or clock.sleeps_until > clock.now(), "it woke")


async def test_the_clock_of_the_machine_comes_back_in_time() -> None:
    clock = SystemClock()
    moment = datetime.now(UTC) + timedelta(milliseconds=50)
    await clock.sleep_until(moment)
    assert clock.now() >= moment
    async with asyncio.timeout(60):
        await clock.sleep_until(moment - HOUR)


async def test_a_clock_that_is_set_back_while_somebody_sleeps_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ferryman.cron.clock.LONGEST_NAP_SECONDS", 0.01)
    clock, offset = SystemClock(), timedelta()
    clock.now = lambda: datetime.now(UTC) - offset
    sleeping = asyncio.ensure_future(clock.sleep_until(clock.now() + timedelta(milliseconds=100)))
    await asyncio.sleep(0.02)
    offset = HOUR
    async with asyncio.timeout(60):
        await sleeping


async def test_by_default_the_database_says_which_minute_it_is(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", datetime(2020, 1, 1, tzinfo=UTC))
    wrong = ManualClock(NOON)
    scheduler = CronScheduler(client, "* * * * * tick", hooks=HookRegistry(), clock=wrong)
    async with _running(scheduler):
        await until(lambda: wrong.sleeps_until is not None, "it sleeps")
        assert NOON < wrong.sleeps_until <= NOON + MINUTE
    assert abs(fired(connection)[0] - datetime.now(UTC)) < 2 * MINUTE
