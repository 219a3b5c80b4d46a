"""Schedules that are kept in the database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import ferryman.cron.scheduler
from ferryman import Client, JobKeyMode, SyncClient
from ferryman.cron.crontab import Crontab
from ferryman.cron.fill import CrontabFill
from ferryman.cron.pattern import parse_timer
from ferryman.errors import CrontabError, DuplicateScheduleError, InvalidJobError, UnknownScheduleError
from tests.support.logs import logged
from tests.support.schedulers import HOUR, MINUTE, after_reading, fired, known, make_known, payloads, scheduler_at
from tests.support.waiting import until, waiting_for_locks

FULL = Crontab(
    parse_timer("*/15 8-17 1,15 * 1-5"),
    "send_report",
    id="daily",
    fill=CrontabFill.hours(2),
    max_attempts=3,
    queue_name="reports",
    priority=-5,
    flags=["loud", "slow"],
    job_key="report",
    job_key_mode=JobKeyMode.PRESERVE_RUN_AT,
    payload_json='{"to":"team","price":1.10}',
    time_zone="Europe/Paris",
)


def _soon() -> datetime:
    """The minute after the next, by the clock that the database of the tests has too."""
    return datetime.now(UTC).replace(second=0, microsecond=0) + 2 * MINUTE


async def test_a_schedule_comes_back_as_it_was_added(client: Client) -> None:
    added = await client.schedules.add(FULL)
    assert added.crontab == FULL
    assert (added.identifier, added.is_paused, added.last_run_at) == ("daily", False, None)
    assert added.next_run_at == FULL.next_after(datetime.now(UTC))
    assert await client.schedules.list() == [added]


@pytest.mark.parametrize(
    "timing",
    [
        "* * * * *",
        "*/5 * * * *",
        "0 8 * * 1-5",
        "1,2,3,7-9,50 */6 1-31 2,4 *",
        "*/7 */23 */2 */11 0,6",
        "59 23 31 12 6",
    ],
)
async def test_every_timing_comes_back_with_the_same_minutes(client: Client, timing: str) -> None:
    crontab = Crontab(parse_timer(timing), "task")
    assert (await client.schedules.add(crontab)).crontab.timer == crontab.timer


def test_schedules_work_without_a_loop(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    sync_client.schedules.add("0 8 * * * send_report ?id=daily&fill=1h {to: 'team'}")
    assert sync_client.schedules.pause("daily").is_paused
    assert sync_client.schedules.resume("daily").next_run_at is not None
    assert sync_client.schedules.change("daily", "0 9 * * * send_report").crontab.timer == parse_timer("0 9 * * *")
    assert sync_client.schedules.run_now("daily").task_identifier == "send_report"
    assert [schedule.identifier for schedule in sync_client.schedules.list()] == ["daily"]
    assert sync_client.schedules.remove("daily")
    assert sync_client.schedules.list() == []


async def test_a_schedule_that_was_added_while_a_worker_runs_fires(
    client: Client, connection: psycopg.Connection
) -> None:
    scheduler, clock = scheduler_at(client, _soon() - 2 * MINUTE, ())
    await scheduler.tick()
    await client.schedules.add("* * * * * tick {a: 1}")
    clock.set(_soon())
    await scheduler.tick()
    assert fired(connection)[-1] == clock.now()
    mark = clock.now().strftime("%Y-%m-%dT%H:%M:00.000Z")
    assert payloads(connection)[-1] == {"a": 1, "_cron": {"ts": mark, "backfilled": False}}
    assert (await client.schedules.list())[0].last_run_at == clock.now()


async def test_a_paused_schedule_adds_nothing_and_does_not_make_up_for_it(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.schedules.add("* * * * * tick ?fill=1d")
    connection.execute("update graphile_worker._ferryman_schedules set active_since = now() - interval '3 hours'")
    connection.execute("update graphile_worker._private_known_crontabs set known_since = now() - interval '3 hours'")
    paused = await client.schedules.pause("tick")
    assert (paused.is_paused, paused.next_run_at) == (True, None)
    now = datetime.now(UTC)
    scheduler, clock = scheduler_at(client, now, ())
    await scheduler.tick()
    assert fired(connection) == []

    await client.schedules.resume("tick")
    clock.set(_soon())
    await scheduler.tick()
    assert fired(connection)
    assert min(fired(connection)) > now


async def test_a_schedule_that_is_paused_after_the_worker_read_it_adds_nothing(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.schedules.add("* * * * * tick")
    scheduler, _ = scheduler_at(client, _soon(), ())

    async def pause() -> None:
        await client.schedules.pause("tick")

    after_reading(scheduler, pause)
    await scheduler.tick()
    assert fired(connection) == []


async def test_another_timing_counts_from_now_on(client: Client, connection: psycopg.Connection) -> None:
    await client.schedules.add("0 0 1 1 * tick ?fill=1d")
    connection.execute("update graphile_worker._ferryman_schedules set active_since = now() - interval '3 hours'")
    connection.execute("update graphile_worker._private_known_crontabs set known_since = now() - interval '3 hours'")
    before = datetime.now(UTC)
    changed = await client.schedules.change("tick", "* * * * * tick ?fill=1d")
    assert changed.crontab.fill == CrontabFill.days(1)
    scheduler, _ = scheduler_at(client, _soon(), ())
    await scheduler.tick()
    assert fired(connection)
    assert min(fired(connection)) > before


async def test_another_payload_leaves_what_is_owed(client: Client, connection: psycopg.Connection) -> None:
    await client.schedules.add("* * * * * tick ?fill=1d")
    connection.execute("update graphile_worker._ferryman_schedules set active_since = now() - interval '3 hours'")
    connection.execute("update graphile_worker._private_known_crontabs set known_since = now() - interval '3 hours'")
    await client.schedules.change("tick", "* * * * * tick ?fill=1d {new: true}")
    scheduler, _ = scheduler_at(client, datetime.now(UTC), ())
    await scheduler.tick()
    assert len(fired(connection)) >= 179


async def test_removing_forgets_when_it_fired_but_leaves_its_jobs(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.schedules.add("* * * * * tick")
    scheduler, clock = scheduler_at(client, _soon(), ())
    await scheduler.tick()
    assert len(fired(connection)) >= 1
    assert await client.schedules.remove("tick") is True
    assert await client.schedules.remove("tick") is False
    assert known(connection) is None
    count = len(fired(connection))
    clock.advance(MINUTE)
    await scheduler.tick()
    assert len(fired(connection)) == count
    assert known(connection) is None


async def test_run_now_adds_a_job_at_once_and_leaves_the_minutes_alone(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.schedules.add(FULL)
    await client.schedules.pause("daily")
    before = known(connection, "daily")
    job = await client.schedules.run_now("daily")
    assert (job.task_identifier, job.queue_name, job.max_attempts, job.priority, job.key, job.flags) == (
        "send_report", "reports", 3, -5, "report", ("loud", "slow"),
    )  # fmt: skip
    assert abs(job.run_at - datetime.now(UTC)) < timedelta(minutes=5)
    payload = payloads(connection)[0]
    assert payload["to"] == "team"
    assert payload["_cron"]["backfilled"] is False
    assert known(connection, "daily") == before


async def test_a_name_is_given_once(client: Client) -> None:
    await client.schedules.add("* * * * * tick")
    with pytest.raises(DuplicateScheduleError, match="the schedule 'tick' already exists; nothing was added"):
        await client.schedules.add("0 * * * * other ?id=tick")
    assert len(await client.schedules.list()) == 1


async def test_the_name_of_a_crontab_of_workers_is_refused_unless_taken_over(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(DuplicateScheduleError, match="a crontab that a worker has registered; nothing was added"):
        await client.schedules.add("* * * * * tick")
    assert [crontab.identifier for crontab in await client.schedules.known()] == ["tick"]
    await client.schedules.add("* * * * * tick ?fill=1d", take_over=True)
    assert await client.schedules.known() == []
    before = datetime.now(UTC)
    scheduler, _ = scheduler_at(client, _soon(), ())
    await scheduler.tick()
    assert min(fired(connection)) > before - MINUTE


async def test_a_crontab_of_the_worker_wins_over_a_schedule_of_the_same_name(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await client.schedules.add("* * * * * stored ?id=tick")
    scheduler, clock = scheduler_at(client, _soon(), "* * * * * own ?id=tick")
    await scheduler.tick()
    clock.advance(MINUTE)
    await scheduler.tick()
    assert fired(connection, "stored") == []
    assert len(fired(connection, "own")) >= 2
    [complaint] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert logged(caplog, "schedule_shadowed", crontab="tick") == [complaint]


async def test_a_schedule_that_cannot_be_read_is_told_once_and_stops_no_other(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await client.schedules.add("* * * * * broken")
    await client.schedules.add("* * * * * tick")
    connection.execute("update graphile_worker._ferryman_schedules set timing = 'x' where identifier = 'broken'")
    scheduler, clock = scheduler_at(client, _soon(), ())
    await scheduler.tick()
    clock.advance(MINUTE)
    await scheduler.tick()
    assert fired(connection)[-1] == clock.now()
    assert len(logged(caplog, "schedule_unreadable", crontab="broken")) == 1
    assert await client.schedules.remove("broken")


@pytest.mark.parametrize(
    "change",
    [
        "update graphile_worker._ferryman_schedules set timing = 'x'",
        "update graphile_worker._ferryman_schedules set payload = (repeat('[', 5000) || repeat(']', 5000))::json",
        "update graphile_worker._ferryman_schedules set fill_seconds = 9223372036854775807",
        "update graphile_worker._ferryman_schedules set active_since = 'infinity', created_at = '-infinity'",
        "update graphile_worker._private_known_crontabs set last_execution = 'infinity'",
        "update graphile_worker._private_known_crontabs set known_since = 'infinity'",
    ],
)
async def test_a_row_that_makes_no_sense_stops_no_other_schedule_and_can_be_listed_and_paused(
    client: Client, connection: psycopg.Connection, change: str
) -> None:
    await client.schedules.add("0 0 1 1 * odd")
    await client.schedules.add("* * * * * tick")
    connection.execute(f"{change} where identifier = 'odd'".encode())
    scheduler, clock = scheduler_at(client, _soon(), ())
    await scheduler.tick()
    assert fired(connection)[-1] == clock.now()
    assert [schedule.identifier for schedule in await client.schedules.list()] == ["odd", "tick"]
    assert (await client.schedules.pause("odd")).is_paused


async def test_a_schedule_that_cannot_be_read_says_why_and_adds_no_job(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.schedules.add("* * * * * odd")
    connection.execute("update graphile_worker._ferryman_schedules set timing = 'x'")
    [odd] = await client.schedules.list()
    assert odd.problem is not None
    assert odd.next_run_at is None
    with pytest.raises(CrontabError, match="the schedule 'odd' cannot be read"):
        _ = odd.crontab
    with pytest.raises(CrontabError, match="the schedule 'odd' cannot be read"):
        await client.schedules.run_now("odd")
    assert fired(connection, "odd") == []
    assert (await client.schedules.change("odd", "* * * * * odd")).problem is None


async def test_unknown_schedules_are_refused_by_name(client: Client) -> None:
    for attempt in (
        client.schedules.pause("nobody"),
        client.schedules.resume("nobody"),
        client.schedules.run_now("nobody"),
        client.schedules.change("nobody", "* * * * * tick"),
    ):
        with pytest.raises(UnknownScheduleError, match="the database has no schedule 'nobody'"):
            await attempt


async def test_senseless_schedules_are_refused(client: Client) -> None:
    with pytest.raises(CrontabError, match="one line of crontab text is expected; this has 2"):
        await client.schedules.add("* * * * * a\n* * * * * b")
    with pytest.raises(CrontabError, match="not int"):
        await client.schedules.add(5)
    with pytest.raises(CrontabError, match="keeps its name"):
        await client.schedules.change("a", "* * * * * a ?id=b")
    with pytest.raises(InvalidJobError):
        await client.schedules.pause("")
    assert await client.schedules.list() == []


async def test_a_schedule_is_part_of_the_callers_transaction(client: Client, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as own:
        await client.schedules.add("* * * * * tick", using=own)
        assert await client.schedules.list() == []
        await own.rollback()
    assert await client.schedules.list() == []
    assert await client.schedules.known() == []


@pytest.mark.parametrize("change", ["pause", "remove"])
async def test_whoever_pauses_or_removes_waits_for_a_job_that_is_being_added(
    client: Client, database: str, connection: psycopg.Connection, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.schedules.add("* * * * * tick")
    scheduler, clock = scheduler_at(client, _soon(), ())
    monkeypatch.setattr(ferryman.cron.scheduler, "LOCK_WAIT", HOUR)
    with psycopg.connect(database) as holder:
        holder.execute("select from graphile_worker._private_known_crontabs for update")
        ticking = asyncio.create_task(scheduler.tick())
        await until(lambda: waiting_for_locks(connection) == 1, "the scheduler is in the middle of it")
        changing = asyncio.create_task(getattr(client.schedules, change)("tick"))
        await until(lambda: waiting_for_locks(connection) == 2, "the change waits for the scheduler")
        holder.rollback()
        await asyncio.gather(ticking, changing)
    assert fired(connection) == [clock.now()]
    assert (known(connection) is None) == (change == "remove")
    clock.advance(MINUTE)
    await scheduler.tick()
    assert fired(connection) == [clock.now() - MINUTE]
    assert (known(connection) is None) == (change == "remove")
