"""Workers that sweep, beside workers of other kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support import nodes
from tests.support.fleet import idle_app
from tests.support.rhythms import QUICK, recovery_of
from tests.support.tables import Tables
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import Any

RUST_ID = "graphile_worker_0123456789abcdef01"
"""What a Rust worker calls itself: it is the same whether it registers or not."""
UNHURRIED = {**QUICK, "sweep_threshold": 8.0, "claimed_threshold": 8.0}
"""Longer than the machine keeps a test from beating. An orphan is not swept before the server has been up so long."""
NOTE_SILENCE = """
    update graphile_worker._private_workers
    set metadata = metadata || jsonb_build_object('silence', jsonb_build_object(
        'beat', cast(extract(epoch from last_heartbeat_at) * 1000000 as bigint), 'seconds', %s::int
    ))
    where id = %s
"""
"""For how many seconds another observer has seen no beat of this worker."""


@pytest.fixture
def tables(database: str) -> Iterator[Tables]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield Tables(connection)


def sweeper(database: str, rhythm: Mapping[str, float] = QUICK) -> AbstractAsyncContextManager[Any]:
    """A worker of ours that sweeps often. Locks of six minutes are far beyond its threshold."""
    return running(worker_of(idle_app(database), recovery=recovery_of(rhythm)))


@pytest.fixture
async def _sweeper(database: str) -> AsyncIterator[None]:
    async with sweeper(database):
        yield


async def until_swept(tables: Tables, times: int = 3, *, beats_as: str | None = None) -> None:
    """Wait until the sweeper has swept so often, by what it does to orphans of our own."""

    def is_swept(orphan: int) -> bool:
        if beats_as is not None:
            tables.query("select graphile_worker.worker_heartbeat(%s)", beats_as)
        return tables.job(orphan)["locked_by"] is None

    for number in range(times):
        orphan = tables.held_job(f"ferryman-{number:018}", age="6 minutes")
        await until(lambda orphan=orphan: is_swept(orphan), "a sweep")


@pytest.mark.parametrize("version", ["0.17", "0.18"])
@pytest.mark.usefixtures("_sweeper")
async def test_a_node_worker_that_runs_a_job_of_six_minutes_keeps_it(
    version: str, tables: Tables, database: str
) -> None:
    with nodes.working(version, database, command="hold") as node:
        job_id = tables.add_job(queue_name="q")["id"]
        assert node.next_line() == "holding"
        owner = tables.job(job_id)["locked_by"]
        for table in ("_private_jobs", "_private_job_queues"):
            aged = f"update graphile_worker.{table} set locked_at = now() - interval '6 minutes' where locked_by = %s"
            tables.query(aged, owner)
        await until_swept(tables)
        assert (tables.job(job_id)["locked_by"], tables.queue("q")["locked_by"]) == (owner, owner)


@pytest.mark.usefixtures("_sweeper")
async def test_a_rust_worker_without_recovery_keeps_its_jobs(tables: Tables) -> None:
    """It never registers, so nobody can know whether it lives."""
    job_id = tables.held_job(RUST_ID, age="6 minutes", queue_name="q")
    await until_swept(tables)
    assert (tables.job(job_id)["locked_by"], tables.queue("q")["locked_by"]) == (RUST_ID, RUST_ID)


async def test_a_rust_worker_that_beats_keeps_its_jobs_and_one_that_stops_is_swept(
    tables: Tables, database: str
) -> None:
    """Its row has Rust's shape: no session, nothing about prefetching. Nobody knows what it has started.

    It does not say how often it beats, so that it must be silent for a minute. All but a second of it others saw.
    """
    tables.query("select graphile_worker.worker_heartbeat(%s, %s)", RUST_ID, '{"pid": 1}')
    job_id = tables.held_job(RUST_ID, age="6 minutes", queue_name="q")

    async with sweeper(database, UNHURRIED):
        await until_swept(tables, beats_as=RUST_ID)
        assert tables.job(job_id)["locked_by"] == RUST_ID

    tables.query(NOTE_SILENCE, 59, RUST_ID)
    async with sweeper(database):
        await until(lambda: tables.job(job_id)["locked_by"] is None, "the silent worker is swept")
    assert [(crash["started"], crash["reason"]) for crash in tables.crashes(job_id)] == [(None, "silent")]
    assert tables.queue("q")["locked_by"] is None
