"""The connection of a sweep is terminated in the middle of a batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.errors import DatabaseUnavailableError
from tests.recovery.conftest import long_up, sweeper, tables
from tests.recovery.test_sweep_races import until_it_answers
from tests.support.sweeps import sweep_as_worker
from tests.support.waiting import end_sessions_that_wait, somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from ferryman import Client
    from tests.support.tables import Tables

__all__ = ["long_up", "sweeper", "tables"]


@pytest.mark.parametrize("place", ["_ferryman_crashes", "_ferryman_lost_workers"])
async def test_a_batch_whose_connection_is_terminated_is_undone_and_the_next_sweep_finishes(
    tables: Tables, sweeper: Client, database: str, place: str
) -> None:
    """In the middle: the first table is written when jobs were changed, the second at the very end."""
    jobs = [tables.held_job(tables.worker(), queue_name=f"q{number}") for number in range(5)]
    before = [tables.job(job_id) for job_id in jobs]
    with psycopg.connect(database, autocommit=True) as observer, tables.connection.transaction():
        tables.query(f"lock table graphile_worker.{place} in share mode")
        sweeping = asyncio.create_task(sweep_as_worker(sweeper))
        await until(lambda: somebody_waits_for_a_lock(observer), "the sweep waits in the middle of its batch")
        assert end_sessions_that_wait(observer) == 1
        with pytest.raises(DatabaseUnavailableError):
            await sweeping

    assert [tables.job(job_id) for job_id in jobs] == before
    assert [tables.queue(f"q{number}")["locked_by"] for number in range(5)] == ["dead"] * 5
    assert (tables.workers(), tables.crashes(), tables.lost_workers()) == (["dead"], [], [])
    await until_it_answers(sweeper)
    result = await sweep_as_worker(sweeper)
    assert sorted(each.job_id for each in result.recoveries) == jobs
    assert [tables.queue(f"q{number}")["locked_by"] for number in range(5)] == [None] * 5
    assert (tables.workers(), len(tables.crashes()), tables.lost_workers()[0]["recovered_jobs"]) == ([], 5, 5)
