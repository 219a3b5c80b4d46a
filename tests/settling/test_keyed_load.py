"""Producers that use the keys of running jobs, again and again: no job is stranded, and no transaction is a victim.

In a short form; with FERRYMAN_PROOF=1, for about a minute each.
"""

from __future__ import annotations

import asyncio
import os
import random

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ferryman import App, Client, JobKeyMode, JobSpec, LocalQueueConfig, RawJobSpec, Retry
from ferryman.retries import FixedDelay
from tests.support import evidence, once
from tests.support.server import shared_server
from tests.support.waiting import until
from tests.support.workers import running, worker_of

IS_FULL = "FERRYMAN_PROOF" in os.environ  # read before fixtures hide it
pytestmark = [pytest.mark.claims, pytest.mark.timeout(0 if IS_FULL else 300)]

KEYS = 20
MODES = tuple(JobKeyMode)
ADDITIONS = 20_000 if IS_FULL else 600
PRODUCERS, TRANSACTIONS = 4, 6_000 if IS_FULL else 160
KEYS_OF_MANY, KEYS_IN_A_TRANSACTION = 500, 50


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig()], ids=["direct", "local queue"])
async def test_no_job_that_retries_is_stranded_by_those_who_add_its_key(
    database: str,
    client: Client,
    connection: psycopg.Connection,
    local_queue: LocalQueueConfig | None,
) -> None:
    app, may_succeed = App(database), False

    @app.task(retry=FixedDelay(0))
    async def work() -> None:
        await asyncio.sleep(0)
        if not may_succeed:
            raise Retry("not yet")

    def spec(number: int) -> JobSpec:
        key = number % KEYS
        return JobSpec(job_key=f"key {key}", job_key_mode=MODES[key % len(MODES)], max_attempts=30_000)

    async with running(worker_of(app, concurrency=KEYS, local_queue=local_queue)):
        for number in range(ADDITIONS):
            await client.add_raw_job("work", spec=spec(number))
        may_succeed = True
        await until(lambda: not is_anything_left(connection), "every job has ended, or was superseded")


def is_anything_left(connection: psycopg.Connection) -> bool:
    """Whether a job is locked, or will run again. One that was superseded while it ran has neither key nor attempts."""
    left = connection.execute(
        "select id from graphile_worker._private_jobs where locked_by is not null or key is not null or is_available"
    )
    return left.fetchone() is not None


async def test_no_transaction_that_adds_many_keys_is_the_victim_of_a_deadlock(
    database: str, client: Client, connection: psycopg.Connection
) -> None:
    app = App(database)

    @app.task
    async def work() -> None:
        await asyncio.sleep(0)

    async def produce(producer: int) -> None:
        chance = random.Random(producer)
        async with await psycopg.AsyncConnection.connect(database) as mine:
            for _ in range(TRANSACTIONS // PRODUCERS):
                await client.add_raw_jobs(specs(chance), using=mine)
                await mine.commit()

    async with running(worker_of(app, concurrency=10, local_queue=LocalQueueConfig(size=100))):
        await asyncio.gather(*map(produce, range(PRODUCERS)))
        await until(lambda: not is_anything_left(connection), "every job has ended, or was superseded")

    assert deadlocks(database) == []


def specs(chance: random.Random) -> list[RawJobSpec]:
    """Jobs with some of the keys."""
    numbers = chance.sample(range(KEYS_OF_MANY), KEYS_IN_A_TRANSACTION)
    return [RawJobSpec("work", {}, JobSpec(job_key=f"key {number}")) for number in numbers]


def deadlocks(dsn: str) -> list[str]:
    """What the server's log says about deadlocks in this database."""
    log = shared_server(once.folder).folder / "server.log"
    return [line for line in evidence._lines_about(str(conninfo_to_dict(dsn)["dbname"]), log) if "deadlock" in line]
