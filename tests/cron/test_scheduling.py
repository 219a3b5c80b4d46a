"""A single scheduler: the jobs that it adds, when, and what it logs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import ferryman.cron.scheduler
from ferryman import JobKeyMode, JobSpec
from ferryman.cron.crontab import Crontab
from ferryman.cron.due_minutes import crontabs_from
from ferryman.cron.fill import CrontabFill
from ferryman.cron.pattern import parse_timer
from ferryman.cron.scheduler import RETRY_HELD_UP
from ferryman.errors import ConfigurationError
from ferryman.hooks import CronJobScheduled, CronTick, HookRegistry
from tests.support.logs import logged
from tests.support.schedulers import HOUR, MINUTE, NOON, after_reading, fired, known, make_known, payloads, scheduler_at

if TYPE_CHECKING:
    from ferryman import Client

EVERY_MINUTE = parse_timer("* * * * *")


async def test_a_new_crontab_is_registered_and_fires_from_the_next_minute_on(
    client: Client, connection: psycopg.Connection
) -> None:
    start = NOON + timedelta(seconds=20)
    scheduler, clock = scheduler_at(client, start, "* * * * * tick ?fill=1d")
    assert await scheduler.tick() == NOON + MINUTE
    assert known(connection) == (start, None)
    assert fired(connection) == []

    clock.set(NOON + MINUTE)
    assert await scheduler.tick() == NOON + 2 * MINUTE
    assert fired(connection) == [NOON + MINUTE]
    assert known(connection) == (start, NOON + MINUTE)


async def test_a_job_has_everything_that_its_crontab_asks_for(client: Client, connection: psycopg.Connection) -> None:
    crontab = Crontab(
        EVERY_MINUTE,
        "tick",
        id="all of it",
        max_attempts=3,
        queue_name="clocks",
        priority=-7,
        flags=["loud", "slow"],
        job_key="the one",
        payload_json='{"price": 1.10, "deep": {"_cron": 1}}',
    )
    make_known(connection, "all of it", NOON - HOUR, NOON - MINUTE)
    scheduler, _ = scheduler_at(client, NOON, [crontab])
    await scheduler.tick()
    row = connection.execute(
        "select queue_name, max_attempts, priority, key, run_at, attempts, flags from graphile_worker.jobs"
    ).fetchone()
    assert row == ("clocks", 3, -7, "the one", NOON, 0, {"loud": True, "slow": True})
    [text] = connection.execute("select payload::text from graphile_worker._private_jobs").fetchone()
    mark = '"_cron":{"ts": "2030-03-04T12:00:00.000Z", "backfilled": false}'
    assert text.endswith(mark + "}")
    assert payloads(connection)[0]["price"] == 1.1


async def test_a_crontab_without_a_payload_gets_one_with_the_mark_of_cron(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, _ = scheduler_at(client, NOON)
    await scheduler.tick()
    assert payloads(connection) == [{"_cron": {"ts": "2030-03-04T12:00:00.000Z", "backfilled": False}}]


async def test_a_payload_that_has_a_mark_already_gets_ours(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick {_cron: 5, a: 1}")
    await scheduler.tick()
    [text] = connection.execute("select payload::text from graphile_worker._private_jobs").fetchone()
    assert text.count("_cron") == 1
    assert payloads(connection) == [{"a": 1, "_cron": {"ts": "2030-03-04T12:00:00.000Z", "backfilled": False}}]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (JobKeyMode.REPLACE, NOON + 2 * MINUTE),
        (JobKeyMode.PRESERVE_RUN_AT, NOON),
        (JobKeyMode.UNSAFE_DEDUPE, NOON),
    ],
)
async def test_a_crontab_with_a_key_keeps_one_job(
    client: Client, connection: psycopg.Connection, mode: JobKeyMode, expected: datetime
) -> None:
    make_known(connection, "tick", NOON - HOUR)
    crontab = Crontab(EVERY_MINUTE, "tick", job_key="one", job_key_mode=mode)
    scheduler, clock = scheduler_at(client, NOON, crontab)
    for _ in range(3):
        await scheduler.tick()
        clock.advance(MINUTE)
    assert fired(connection) == [expected]


async def test_several_minutes_at_once_leave_one_job_with_a_key(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick ?fill=30m&jobKey=one")
    await scheduler.tick()
    assert fired(connection) == [NOON]
    assert known(connection)[1] == NOON


async def test_a_known_crontab_makes_up_for_minutes_within_its_fill(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", NOON - 5 * HOUR, NOON - 3 * HOUR)
    scheduler, _ = scheduler_at(client, NOON + timedelta(seconds=30), "*/10 * * * * tick ?fill=2h")
    await scheduler.tick()
    expected = [NOON - number * 10 * MINUTE for number in reversed(range(12))]
    assert fired(connection) == expected
    assert [payload["_cron"]["backfilled"] for payload in payloads(connection)] == [True] * 11 + [False]
    assert known(connection)[1] == NOON


async def test_nothing_is_made_up_for_before_the_last_time(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - 5 * HOUR, NOON - 3 * MINUTE)
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick ?fill=2h")
    await scheduler.tick()
    assert fired(connection) == [NOON - 2 * MINUTE, NOON - MINUTE, NOON]


async def test_nothing_is_made_up_for_before_it_was_known(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - 90 * timedelta(seconds=1))
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick ?fill=2h")
    await scheduler.tick()
    assert fired(connection) == [NOON - MINUTE, NOON]


async def test_without_fill_only_the_minute_under_way_counts_at_a_start(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", NOON - 5 * HOUR, NOON - 3 * HOUR)
    scheduler, _ = scheduler_at(client, NOON + timedelta(seconds=59))
    await scheduler.tick()
    assert fired(connection) == [NOON]


async def test_fill_goes_by_the_id_and_not_by_the_task(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - 5 * HOUR)
    make_known(connection, "two", NOON - 3 * MINUTE)
    now = NOON + timedelta(seconds=20)
    scheduler, _ = scheduler_at(client, now, "* * * * * tick ?id=one&fill=1h\n* * * * * tick ?id=two&fill=1h")
    await scheduler.tick()
    assert fired(connection) == [NOON - 3 * MINUTE, NOON - 2 * MINUTE, NOON - MINUTE, NOON]
    assert known(connection, "one") == (now, None)


async def test_a_worker_that_is_late_makes_up_for_five_minutes_and_for_more_within_its_fill(
    client: Client, connection: psycopg.Connection
) -> None:
    crontabs = "* * * * * tick\n* * * * * filled ?fill=1h"
    make_known(connection, "tick", NOON - HOUR)
    make_known(connection, "filled", NOON - HOUR, NOON - MINUTE)
    scheduler, clock = scheduler_at(client, NOON, crontabs)
    await scheduler.tick()
    clock.set(NOON + 20 * MINUTE)
    await scheduler.tick()
    assert fired(connection) == [NOON, *(NOON + number * MINUTE for number in range(15, 21))]
    assert fired(connection, "filled") == [NOON + number * MINUTE for number in range(21)]
    marks = {payload["_cron"]["ts"]: payload["_cron"]["backfilled"] for payload in payloads(connection)}
    assert [marks[f"2030-03-04T12:{number:02}:00.000Z"] for number in (0, 1, 14, 15, 20)] == [
        False, True, True, False, False,
    ]  # fmt: skip


async def test_a_clock_that_goes_back_fires_nothing_twice(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - 5 * HOUR, NOON - MINUTE)
    scheduler, clock = scheduler_at(client, NOON, "* * * * * tick ?fill=1d")
    await scheduler.tick()
    for offset in (-HOUR, -HOUR + MINUTE, timedelta(seconds=30), -MINUTE, timedelta(), MINUTE):
        clock.set(NOON + offset)
        await scheduler.tick()
    assert fired(connection) == [NOON, NOON + MINUTE]


async def test_a_tick_that_comes_too_early_waits_for_the_rest(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON)
    await scheduler.tick()
    clock.set(NOON + timedelta(seconds=59.9))
    assert await scheduler.tick() == NOON + MINUTE
    assert fired(connection) == [NOON]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("", datetime(2030, 3, 4, 8, tzinfo=UTC)), ("&tz=America/New_York", datetime(2030, 3, 3, 13, tzinfo=UTC))],
    ids=["UTC", "New York"],
)
async def test_crontabs_read_the_clock_of_their_time_zone(
    client: Client, connection: psycopg.Connection, zone: str, expected: datetime
) -> None:
    make_known(connection, "tick", NOON - 30 * HOUR)
    scheduler, _ = scheduler_at(client, NOON, f"0 8 * * * tick ?fill=1d{zone}")
    await scheduler.tick()
    assert fired(connection) == [expected]


async def test_hooks_hear_of_each_minute_and_of_what_was_really_scheduled(
    client: Client, connection: psycopg.Connection
) -> None:
    heard: list[Any] = []
    hooks = HookRegistry()
    hooks.on(CronTick, heard.append)
    hooks.on(CronJobScheduled, heard.append)
    make_known(connection, "tick", NOON - HOUR)
    pairs = [scheduler_at(client, NOON, hooks=hooks) for _ in range(2)]
    for scheduler, _ in pairs:
        await scheduler.tick()
        await scheduler.tick()
        await scheduler.teller.told()
    ticks = [event for event in heard if isinstance(event, CronTick)]
    assert [event.timestamp for event in ticks] == [NOON, NOON]
    assert [crontab.task_identifier for crontab in ticks[0].crontabs] == ["tick"]
    [scheduled] = [event for event in heard if isinstance(event, CronJobScheduled)]
    assert (scheduled.crontab.identifier, scheduled.scheduled_at) == ("tick", NOON)


async def test_a_hook_that_hangs_does_not_keep_crontabs_from_firing(
    client: Client, connection: psycopg.Connection
) -> None:
    hooks = HookRegistry()

    async def hang(event: Any) -> None:
        await asyncio.Event().wait()

    hooks.on(CronTick, hang)
    hooks.on(CronJobScheduled, hang)
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON, hooks=hooks)
    async with asyncio.timeout(60):
        await scheduler.tick()
        clock.set(NOON + MINUTE)
        await scheduler.tick()
    await scheduler.teller.close()
    assert fired(connection) == [NOON, NOON + MINUTE]


async def test_a_long_time_is_made_up_for_in_parts(client: Client, connection: psycopg.Connection) -> None:
    make_known(connection, "tick", NOON - 48 * HOUR)
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick ?fill=1d")
    await scheduler.tick()
    assert fired(connection) == [NOON - number * MINUTE for number in reversed(range(24 * 60 + 1))]


async def test_a_crontab_that_somebody_forgot_is_registered_again(
    client: Client, connection: psycopg.Connection
) -> None:
    make_known(connection, "tick", NOON - HOUR)
    scheduler, _ = scheduler_at(client, NOON)

    async def forget() -> None:
        connection.execute("delete from graphile_worker._private_known_crontabs")

    after_reading(scheduler, forget)
    await scheduler.tick()
    assert fired(connection) == [NOON]
    assert known(connection) == (NOON, NOON)


async def test_a_crontab_that_postgresql_refuses_does_not_hold_up_the_others(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await client.schedules.add("* * * * * refused ?queue=q")
    connection.execute("update graphile_worker._ferryman_schedules set active_since = '2030-01-01'")
    connection.execute("alter table graphile_worker._private_jobs add check (run_at < '2020-01-01' or priority = 0)")
    connection.execute("update graphile_worker._ferryman_schedules set priority = 1")
    make_known(connection, "tick", NOON - HOUR)
    make_known(connection, "tock", NOON - HOUR)
    scheduler, _ = scheduler_at(client, NOON, "* * * * * tick\n* * * * * tock")
    await scheduler.tick()
    assert fired(connection, "tick") == fired(connection, "tock") == [NOON]
    assert fired(connection, "refused") == []
    [complaint] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert logged(caplog, "crontab_refused", crontab="refused") == [complaint]


HELD = {
    "a crontab": "select from graphile_worker._private_known_crontabs where identifier = 'held' for update",
    "a schedule": "update graphile_worker._ferryman_schedules set is_paused = true where identifier = 'held'",
    "the job of its key": "select from graphile_worker._private_jobs where key = 'held' for update",
    "a new name": "insert into graphile_worker._private_known_crontabs values ('new', now())",
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for locks end at once."""
    for name in ("LOCK_WAIT", "SHORT_LOCK_WAIT"):
        monkeypatch.setattr(ferryman.cron.scheduler, name, timedelta(milliseconds=10))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", HELD)
async def test_a_row_that_another_transaction_holds_delays_its_own_crontab_only(
    client: Client,
    database: str,
    connection: psycopg.Connection,
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await client.schedules.add("* * * * * held ?jobKey=held")
    await client.add_raw_job("held", {}, JobSpec(job_key="held", run_at=NOON))
    connection.execute("update graphile_worker._ferryman_schedules set active_since = '2030-01-01'")
    make_known(connection, "tick", NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON, "* * * * * tick\n* * * * * new")
    name = "new" if what == "a new name" else "held"
    with psycopg.connect(database) as holder:
        holder.execute(HELD[what].encode())
        assert await scheduler.tick() == NOON + RETRY_HELD_UP
        clock.set(NOON + RETRY_HELD_UP)
        await scheduler.tick()
        clock.set(NOON + MINUTE)
        await scheduler.tick()
        assert fired(connection) == [NOON, NOON + MINUTE]
        assert len(logged(caplog, "crontab_held_up", crontab=name)) == 1
        holder.rollback()
    before = known(connection, name)
    clock.advance(RETRY_HELD_UP)
    assert await scheduler.tick() == NOON + 2 * MINUTE
    assert known(connection, name) != before
    clock.set(NOON + 2 * MINUTE)
    await scheduler.tick()
    assert fired(connection, "held") == [NOON + 2 * MINUTE]
    assert fired(connection) == [NOON, NOON + MINUTE, NOON + 2 * MINUTE]


@pytest.mark.usefixtures("impatient")
async def test_a_crontab_that_was_held_up_makes_up_for_its_minutes(
    client: Client, database: str, connection: psycopg.Connection
) -> None:
    for name in ("held", "tick"):
        make_known(connection, name, NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON, "* * * * * tick\n* * * * * held")
    with psycopg.connect(database) as holder:
        holder.execute(HELD["a crontab"].encode())
        for minute in range(3):
            clock.set(NOON + minute * MINUTE)
            await scheduler.tick()
        assert fired(connection, "held") == []
        holder.rollback()
    clock.advance(MINUTE)
    await scheduler.tick()
    assert fired(connection, "held") == fired(connection) == [NOON + minute * MINUTE for minute in range(4)]


@pytest.mark.usefixtures("impatient")
async def test_a_crontab_that_is_held_up_while_it_makes_up_for_more_than_one_statement_loses_none_of_it(
    client: Client, database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ferryman.cron.scheduler, "JOBS_PER_STATEMENT", 4)
    for name in ("held", "tick"):
        make_known(connection, name, NOON - HOUR)
    scheduler, clock = scheduler_at(client, NOON, "* * * * * tick\n* * * * * held ?fill=10m")
    with psycopg.connect(database) as holder:
        holder.execute(HELD["a crontab"].encode())
        await scheduler.tick()
        holder.rollback()
    clock.advance(RETRY_HELD_UP)
    await scheduler.tick()
    assert fired(connection, "held") == [NOON - number * MINUTE for number in reversed(range(10))], (
        "its fill reaches to 11:51 now"
    )


@pytest.mark.usefixtures("impatient")
async def test_minutes_that_a_crontab_lost_while_it_was_held_up_are_logged_once(
    client: Client, database: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("held", "tick", "filled"):
        make_known(connection, name, NOON - HOUR)
    crontabs = "0 12 * * * held\n* * * * * tick\n0 12 * * * filled ?fill=1h"
    scheduler, clock = scheduler_at(client, NOON, crontabs)
    with psycopg.connect(database) as holder:
        holder.execute("select from graphile_worker._private_known_crontabs where identifier != 'tick' for update")
        for minute in range(8):
            clock.set(NOON + minute * MINUTE)
            await scheduler.tick()
        holder.rollback()
    clock.advance(MINUTE)
    await scheduler.tick()

    assert (fired(connection, "held"), fired(connection, "filled")) == ([], [NOON])
    [lost] = logged(caplog, "crontab_minutes_lost")
    assert (lost.crontab, lost.args) == ("held", ("held", NOON, NOON, 5))  # type: ignore[attr-defined]


async def test_minutes_that_were_lost_in_an_outage_are_logged_for_each_crontab_that_fires_in_them(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("tick", "late", "filled"):
        make_known(connection, name, NOON - HOUR)
    crontabs = "* * * * * tick\n0 18 * * * late\n* * * * * filled ?fill=1h"
    scheduler, clock = scheduler_at(client, NOON, crontabs)
    await scheduler.tick()
    clock.advance(HOUR)
    await scheduler.tick()

    [lost] = logged(caplog, "crontab_minutes_lost")
    assert lost.args == ("tick", NOON + MINUTE, NOON + 54 * MINUTE, 5)


def test_two_crontabs_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"same identifier: 'tick' \(of the tasks 'tick', 'other'\)"):
        crontabs_from(["* * * * * tick", Crontab(EVERY_MINUTE, "other", id="tick")])


def test_crontabs_are_given_as_values_or_as_text() -> None:
    filled = Crontab(EVERY_MINUTE, "b", fill=CrontabFill.hours(1))
    assert crontabs_from("* * * * * a") == crontabs_from(["* * * * * a"]) == (Crontab(EVERY_MINUTE, "a"),)
    assert crontabs_from([filled, "* * * * * a"]) == (filled, Crontab(EVERY_MINUTE, "a"))
    assert crontabs_from(filled) == (filled,)
    assert crontabs_from(()) == ()
    with pytest.raises(ConfigurationError, match="crontabs must be crontabs or crontab text, not int"):
        crontabs_from([5])
