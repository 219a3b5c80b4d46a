"""What recovery has written down is forgotten in time, each kind on its own."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.results import Pruned
from ferryman.recovery.retention import prune

if TYPE_CHECKING:
    from ferryman import Client
    from tests.support.tables import Tables

LOST = """
    insert into graphile_worker._ferryman_lost_workers (worker_id, noticed_at, reason)
    values (%s, now() - %s::interval, 'silent')
"""


async def test_by_default_lost_workers_are_kept_for_a_week_and_crashes_for_a_month(
    tables: Tables, client: Client
) -> None:
    for name, age in (("old", "7 days 1 minute"), ("new", "6 days 23 hours")):
        tables.query(LOST, name, age)
    for age in ("30 days 1 minute", "29 days 23 hours"):
        tables.crashed_before(1, age=age)
    assert await client.prune_recovery_records() == Pruned(lost_workers=1, crashes=1)
    assert [lost["worker_id"] for lost in tables.lost_workers()] == ["new"]
    assert len(tables.crashes()) == 1


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"worker_retention": None}, Pruned(crashes=1)),
        ({"crash_retention": None}, Pruned(lost_workers=1)),
        ({"worker_retention": None, "crash_retention": None}, Pruned()),
    ],
)
async def test_each_kind_can_be_kept_for_ever(
    tables: Tables, client: Client, config: dict[str, Any], expected: Pruned
) -> None:
    tables.query(LOST, "old", "1000 days")
    tables.crashed_before(1, age="1000 days")
    assert await client.prune_recovery_records(WorkerRecoveryConfig(**config)) == expected


async def test_a_crash_is_remembered_for_as_long_as_it_counts_whatever_the_retention(
    tables: Tables, client: Client
) -> None:
    for age in ("71 hours", "73 hours"):
        tables.crashed_before(1, age=age)
    config = WorkerRecoveryConfig(crash_retention=timedelta(hours=1))
    assert await client.prune_recovery_records(config) == Pruned(crashes=1)
    assert len(tables.crashes()) == 1


async def test_much_is_forgotten_in_small_bites(tables: Tables, client: Client) -> None:
    for number in range(7):
        tables.query(LOST, f"worker {number}", "8 days")
        tables.crashed_before(number, age="31 days")
    steps = prune("graphile_worker", WorkerRecoveryConfig().settings, batch=3)
    assert await AsyncSession(lambda: client.pool, client.schema).run(steps) == Pruned(lost_workers=7, crashes=7)


async def test_start_marks_of_claims_that_are_over_are_removed(tables: Tables, client: Client) -> None:
    running, gone, again = (tables.held_job("worker") for _ in range(3))
    for job_id in (running, gone, again):
        tables.mark(job_id)
    tables.query("delete from graphile_worker._private_jobs where id = %s", gone)
    tables.claim(again, "worker", "1 minute")
    assert await client.prune_recovery_records() == Pruned(start_marks=2)
    marks = tables.query("select job_id from graphile_worker._ferryman_started_jobs")
    assert marks == [{"job_id": running}]


async def test_one_at_a_time_is_enough(tables: Tables, client: Client) -> None:
    tables.query(LOST, "old", "8 days")
    with tables.connection.transaction():
        tables.query("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", 0x46525254)
        assert await client.prune_recovery_records() == Pruned()
    assert await client.prune_recovery_records() == Pruned(lost_workers=1)
