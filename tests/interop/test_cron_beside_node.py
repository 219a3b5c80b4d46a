"""Node's scheduler and ours on one schema: each minute of a crontab fires once, whoever is first."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import Client, JobSpec
from ferryman.cron.scheduler import CronScheduler
from ferryman.hooks import HookRegistry
from tests.support import nodes
from tests.support.schedulers import MINUTE, make_known
from tests.support.waiting import somebody_waits_for_a_lock, until, waiting_for_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = ("one", "two", "three")
VERSIONS = ("0.17", "0.18")


@pytest.fixture
def observer(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def _crontab(by: str, fill: str) -> str:
    return "\n".join(f'* * * * * clock ?id={name}&fill={fill} {{"by": "{by}", "name": "{name}"}}' for name in NAMES)


def _scheduler(client: Client, fill: str) -> CronScheduler:
    return CronScheduler(client, _crontab("ferryman", fill), hooks=HookRegistry())


def _jobs(observer: psycopg.Connection) -> list[dict[str, Any]]:
    rows = observer.execute("select payload, run_at from graphile_worker._private_jobs")
    return [{**payload, "minute": run_at.astimezone(UTC)} for payload, run_at in rows]


def _count(observer: psycopg.Connection, by: str) -> int:
    return sum(job["by"] == by for job in _jobs(observer))


def _last(observer: psycopg.Connection) -> datetime | None:
    [last] = observer.execute("select min(last_execution) from graphile_worker._private_known_crontabs").fetchone()
    return last


@pytest.mark.parametrize("version", VERSIONS)
async def test_minutes_that_both_make_up_for_at_the_same_time_fire_once(
    version: str, database: str, observer: psycopg.Connection
) -> None:
    now = datetime.now(UTC)
    for name in NAMES:
        make_known(observer, name, now - timedelta(hours=10))
    async with Client(database) as client:
        with nodes.working(version, database, command="schedule", crontab=_crontab("node", "2d")) as node:
            with psycopg.connect(database) as holder:
                holder.execute("select from graphile_worker._private_known_crontabs for update")
                await until(lambda: waiting_for_locks(observer) == 1, "Node has begun to schedule")
                ticking = asyncio.create_task(_scheduler(client, "2d").tick())
                await until(lambda: waiting_for_locks(observer) == 2, "we have begun too")
            await ticking
            assert node.stop() == "stopped"

    jobs = _jobs(observer)
    times = Counter((job["name"], job["minute"]) for job in jobs)
    assert [occasion for occasion, count in times.items() if count > 1] == []
    for name in NAMES:
        minutes = sorted(job["minute"] for job in jobs if job["name"] == name)
        assert minutes == [minutes[0] + number * MINUTE for number in range(len(minutes))]
        assert now - timedelta(hours=10) <= minutes[0] <= now - timedelta(hours=10) + MINUTE
        assert minutes[-1] >= now - MINUTE
    assert _count(observer, "node") > 0
    assert _count(observer, "ferryman") > 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_we_scheduled_is_done_for_node(version: str, database: str, observer: psycopg.Connection) -> None:
    now = datetime.now(UTC)
    for name in NAMES:
        make_known(observer, name, now - timedelta(hours=2))
    async with Client(database) as client:
        await _scheduler(client, "1h").tick()
    ours = _count(observer, "ferryman")
    assert ours == 3 * 60
    last = _last(observer)
    crontab = _crontab("node", "1h") + "\n* * * * * clock ?id=proof&fill=1h {by: 'proof'}"
    make_known(observer, "proof", now - timedelta(hours=2))
    with nodes.working(version, database, command="schedule", crontab=crontab) as node:
        await until(lambda: _count(observer, "proof") >= 59, "Node has made up for the last hour")
        assert node.stop() == "stopped"
    assert [job["minute"] for job in _jobs(observer) if job["by"] == "node" and job["minute"] <= last] == []


async def test_our_jobs_look_like_nodes(database: str, observer: psycopg.Connection) -> None:
    line = "* * * * * clock ?id={name}&fill=3m&queue=q&max=3&priority=2&jobKey={name} {{deep: {{n: 1.5}}}}"
    now = datetime.now(UTC)
    for name in ("node", "ours"):
        make_known(observer, name, now - timedelta(hours=2))
    with nodes.working("0.18", database, command="schedule", crontab=line.format(name="node")) as node:
        await until(lambda: observer.execute("select from graphile_worker.jobs").rowcount == 1, "Node has scheduled")
        assert node.stop() == "stopped"
    async with Client(database) as client:
        scheduler = CronScheduler(client, line.format(name="ours"), hooks=HookRegistry())
        await scheduler.tick()
    rows = observer.execute(
        "select job.max_attempts, job.priority, job.flags, job.attempts, job.job_queue_id, job.task_id, job.payload,"
        " job.run_at from graphile_worker._private_jobs as job order by job.key"
    ).fetchall()
    theirs, ours = rows
    assert ours[:6] == theirs[:6]
    for *_, payload, run_at in rows:
        assert payload["deep"] == {"n": 1.5}
        assert payload["_cron"]["ts"] == run_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        assert set(payload) == {"deep", "_cron"}
        assert set(payload["_cron"]) == {"ts", "backfilled"}


@pytest.mark.parametrize("version", nodes.VERSIONS)
async def test_schedules_work_on_a_schema_that_node_made(version: str, node_database: Callable[[str], str]) -> None:
    dsn = node_database(version)
    async with Client(dsn) as client:
        await client.migrate()
        await client.schedules.add("* * * * * stored ?fill=1h&jobKey=stored&jobKeyMode=preserve_run_at")
        with psycopg.connect(dsn, autocommit=True) as observer:
            observer.execute("update graphile_worker._ferryman_schedules set active_since = now() - interval '1 hour'")
            observer.execute(
                "update graphile_worker._private_known_crontabs set known_since = now() - interval '1 hour'"
            )
            for name in NAMES:
                make_known(observer, name, datetime.now(UTC) - timedelta(hours=2))
            await _scheduler(client, "1h").tick()
            assert len(_jobs_of(observer, "clock")) == 3 * 60
            assert len(_jobs_of(observer, "stored")) == 1


async def test_a_job_with_a_key_that_nodes_function_loses_is_added_again(
    node_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    dsn = node_database("0.18")
    async with Client(dsn) as client:
        await client.migrate()
        with psycopg.connect(dsn, autocommit=True) as observer, psycopg.connect(dsn) as claiming:
            make_known(observer, "keyed", datetime.now(UTC) - timedelta(hours=2))
            await client.add_raw_job("clock", {"n": 1}, JobSpec(job_key="one"))
            claiming.execute(
                "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'somebody', attempts = 1"
            )
            scheduler = CronScheduler(
                client,
                "* * * * * clock ?id=keyed&jobKey=one",
                hooks=HookRegistry(),
            )
            running = asyncio.create_task(scheduler.run())
            await until(lambda: somebody_waits_for_a_lock(observer), "the scheduler waits for the claim")
            claiming.commit()
            await until(lambda: _last(observer) is not None, "the minute is done")
            running.cancel()
            await asyncio.wait([running])
            jobs = observer.execute("select key, locked_by from graphile_worker.jobs order by id").fetchall()
            assert jobs == [(None, "somebody"), ("one", None)]
    assert "was not stored" in caplog.text


def _jobs_of(observer: psycopg.Connection, task: str) -> list[Any]:
    return observer.execute("select id from graphile_worker.jobs where task_identifier = %s", [task]).fetchall()
