"""Sweeps beside the real Node worker, which never registers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from tests.support import nodes
from tests.support.sweeps import sweep_as_worker

if TYPE_CHECKING:
    from ferryman import Client
    from tests.support.tables import Tables

AT_ONCE = SweepStaleWorkersOptions(sweep_threshold=timedelta(microseconds=1), recovery_delay=timedelta())


@pytest.mark.parametrize("version", ["0.17", "0.18"])
async def test_a_node_worker_with_a_long_job_is_left_alone(
    version: str, tables: Tables, sweeper: Client, database: str
) -> None:
    with nodes.working(version, database, command="hold") as node:
        job_id = tables.add_job(queue_name="q")["id"]
        assert node.next_line() == "holding"
        owner = tables.job(job_id)["locked_by"]
        for table in ("_private_jobs", "_private_job_queues"):
            tables.query(f"update graphile_worker.{table} set locked_at = now() - interval '3 hours'")
        assert (await sweeper.sweep_stale_workers(AT_ONCE)).worker_ids == ()
        assert (await sweep_as_worker(sweeper)).worker_ids == ()
        assert (tables.job(job_id)["locked_by"], tables.queue("q")["locked_by"]) == (owner, owner)


@pytest.mark.parametrize("version", ["0.17", "0.18"])
async def test_a_dead_node_worker_can_be_named_and_another_one_runs_its_job(
    version: str, tables: Tables, sweeper: Client, database: str
) -> None:
    with nodes.working(version, database, command="hold") as node:
        job_id = tables.add_job(queue_name="q", payload={"n": 1})["id"]
        assert node.next_line() == "holding"
    owner = tables.job(job_id)["locked_by"]
    named = SweepStaleWorkersOptions(recovery_delay=timedelta(), worker_ids=[owner])
    result = await sweeper.sweep_stale_workers(named)
    assert [(each.job_id, each.reason) for each in result.recoveries] == [(job_id, "by hand")]
    assert [job["payload"] for job in nodes.run(version, "runOnce", database)] == [{"n": 1}]
