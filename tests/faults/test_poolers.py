"""Whole workers behind PgBouncer, which lends a server connection for one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import Client, JobSpec, RawJobSpec
from tests.support.beats import over_tcp
from tests.support.network import PgBouncer
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.crash_site import CrashSite

QUEUES = [None, None, "a", "b"]

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.fixture
def pooler(server: EmbeddedPostgres, database: str, server_folder: Path) -> Iterator[PgBouncer]:
    with PgBouncer(over_tcp(server, database), server_folder) as started:
        yield started


@pytest.mark.parametrize("listens", [False, True], ids=["polling", "listening"])
@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
async def test_jobs_are_added_claimed_and_settled_through_a_pooler_once_each(
    site: CrashSite, pooler: PgBouncer, listens: bool, prefetch: int | None
) -> None:
    """More workers than the pooler has connections. Whoever listens hears nothing there, and must not need to."""
    workers = [site.start(pooler.dsn, listens=listens, prefetch=prefetch, faults=None) for _ in range(2)]
    for worker in workers:
        await worker.ready()
    jobs: list[int] = []
    async with Client(pooler.dsn) as client:
        for _ in range(4):
            specs = [RawJobSpec("work", {}, JobSpec(queue_name=QUEUES[number % 4])) for number in range(40)]
            added = [job.id for job in await client.add_raw_jobs(specs)]
            for job in added:
                site.history.note("added", job=job)
            jobs += added
        for number in range(20):
            job = await client.add_raw_job("work", {}, JobSpec(job_key=f"key {number}"))
            site.history.note("added", job=job.id)
            jobs.append(job.id)

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")

    await site.all_done()
    assert sorted(site.history.jobs("started")) == jobs
    assert prepared_statements(pooler) == 0
    site.check()


async def test_jobs_survive_a_pooler_that_is_killed_under_load(site: CrashSite, pooler: PgBouncer) -> None:
    jobs = await site.add(200, queues=QUEUES, seconds=0.01)
    worker = site.start(pooler.dsn, listens=False, faults=None)
    for done in (30, 90):
        await until(lambda done=done: len(site.history.jobs("ended")) >= done, f"{done} jobs ended")
        pooler.stop()
        await worker.in_trouble("claiming jobs")
        pooler.start()

    await site.all_done()

    assert sorted(site.history.jobs("started")) == jobs
    site.check()


def prepared_statements(pooler: PgBouncer) -> int:
    """How many its server connections hold, as far as they are met."""
    with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as connection:
        rows = [connection.execute("select count(*) from pg_prepared_statements").fetchone() for _ in range(10)]
    return sum(row[0] for row in rows if row)
