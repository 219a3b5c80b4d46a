"""Whatever stands in front, and however a claim fills the free slots: nothing that is due waits for a poll."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ferryman import App, Client, JobSpec, LocalQueueConfig
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    import psycopg

FEW, MANY = 3, 300
"""Fewer, and more, than a claim for a few slots looks at."""
FRONTS = {
    "nothing": (0, "now()", "mine"),
    "few future jobs": (FEW, "now() + interval '1 day'", "mine"),
    "many future jobs": (MANY, "now() + interval '1 day'", "mine"),
    "few due jobs of others": (FEW, "now()", "theirs"),
    "many due jobs of others": (MANY, "now()", "theirs"),
}
PUT = """
    insert into graphile_worker._private_jobs (task_id, priority, run_at)
    select task.id, %s, {run_at} from generate_series(1, %s), graphile_worker._private_tasks as task
    where task.identifier = %s
"""
BEHIND = 5
"""Due jobs, behind whatever stands in front."""


def _put(connection: psycopg.Connection, count: int, *, priority: int, run_at: str, task: str) -> None:
    """Add jobs of which nobody is told."""
    connection.execute(PUT.format(run_at=run_at), (priority, count, task))


@pytest.mark.parametrize("mode", ["direct", "local queue"])
@pytest.mark.parametrize(("urgent", "slots"), [(1, 1), (2, 1), (1, 3), (3, 3), (4, 3)])
@pytest.mark.parametrize("front", FRONTS)
async def test_one_announcement_is_enough_for_all_that_is_due(
    *, database: str, connection: psycopg.Connection, front: str, urgent: int, slots: int, mode: str
) -> None:
    app = App(database)
    ran: list[str] = []

    @app.task
    async def mine(name: str = "waiting") -> None:
        ran.append(name)
        await asyncio.sleep(0)  # so that each has a slot of its own

    async with Client(database) as client:
        connection.execute("insert into graphile_worker._private_tasks (identifier) values ('theirs'), ('mine')")
        count, run_at, task = FRONTS[front]
        _put(connection, count, priority=-10, run_at=run_at, task=task)
        options = {} if mode == "direct" else {"local_queue": LocalQueueConfig(size=slots)}
        worker = worker_of(app, concurrency=slots, **options)
        async with running(worker):
            await until(lambda: inside(worker).is_listening, "it listens")
            await client.add_job(mine.job(name="first"))
            await until(lambda: ran == ["first"], "it has looked around")
            _put(connection, BEHIND, priority=0, run_at="now()", task="mine")
            _put(connection, urgent - 1, priority=-20, run_at="now()", task="mine")
            inside(worker).looks_near_again()
            await client.add_job(mine.job(name="announced"), JobSpec(priority=-20))
            await until(lambda: len(ran) == 1 + urgent + BEHIND, "all that is due has run, long before the next poll")
