"""Workers that claim, mark, settle, freeze and come back, and sweeps in between: what must hold after each step."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.queries.attempt import mark_started
from ferryman.queries.claim import claim_jobs
from ferryman.queries.settle import complete_claims
from tests.support.sweeps import sweep_as_worker

if TYPE_CHECKING:
    from ferryman import Client
    from ferryman.database.steps import Call, Steps
    from tests.support.tables import Tables

JOBS, STEPS = 12, 60
DOUBLE_RUNS = """
    select queue.queue_name
    from graphile_worker._private_job_queues as queue
    where
        queue.locked_by is distinct from (
            select job.locked_by from graphile_worker._private_jobs as job
            where job.job_queue_id = queue.id and job.locked_by is not null
        )
"""
HELD = """
    select id, cast(extract(epoch from locked_at) * 1000000 as bigint) as token, coalesce(job_queue_id, 0) as queue_id
    from graphile_worker._private_jobs
    where locked_by = %s
"""
FORGOTTEN = """
    select id from graphile_worker._private_jobs
    where locked_by is not null and locked_by not in (select id from graphile_worker._private_workers)
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as its worker knows it."""

    id: int
    token: int
    queue_id: int


@dataclass(slots=True)
class Scene:
    """A few workers as they see themselves: each believes that it holds what it claimed."""

    tables: Tables
    client: Client
    rng: random.Random
    believed: dict[str, list[Claim]] = field(default_factory=dict)
    ended: Counter[int] = field(default_factory=Counter)
    numbers: int = 0

    async def call(self, call: Call) -> list[Any]:
        def steps() -> Steps[Any]:
            rows = yield call
            return rows

        return list(await AsyncSession(lambda: self.client.pool, self.client.schema).run(steps()))

    async def join(self) -> None:
        self.numbers += 1
        worker = self.tables.worker(f"worker {self.numbers}", "0 seconds", prefetches=self.rng.random() < 0.5)
        self.believed[worker] = []

    async def claim(self, worker: str) -> None:
        tasks = [row["id"] for row in self.tables.query("select id from graphile_worker._private_tasks")]
        if worker not in self.tables.workers():
            return  # it would have noticed by now, and taken another id
        await self.call(claim_jobs(worker, tasks, wanted=3, window=100, now=None, forbidden_flags=None))
        self.believed[worker] = [Claim(**row) for row in self.tables.query(HELD, worker)]

    async def mark(self, worker: str) -> None:
        claims = [(claim.id, claim.token) for claim in self.believed[worker]]
        if claims:
            await self.call(mark_started(worker, claims))

    async def complete(self, worker: str) -> None:
        """Also when it was swept long ago: it does not know."""
        if not self.believed[worker]:
            return
        claim = self.believed[worker].pop(self.rng.randrange(len(self.believed[worker])))
        [(done,)] = await self.call(complete_claims(worker, [(claim.id, claim.token, claim.queue_id)]))
        if done is None:
            self.ended[claim.id] += 1

    async def freeze(self, worker: str) -> None:
        self.tables.query(
            "update graphile_worker._private_workers set last_heartbeat_at = now() - interval '1 hour' where id = %s",
            worker,
        )

    async def thaw(self, worker: str) -> None:
        self.tables.query("update graphile_worker._private_workers set last_heartbeat_at = now() where id = %s", worker)

    async def sweep(self) -> None:
        config = {"recovery_delay": timedelta(), "max_crashes": 1000}
        result = await sweep_as_worker(self.client, config=config, batch=self.rng.choice([1, 2, 500]))
        assert all(recovery.worker_id in self.believed for recovery in result.recoveries)

    async def step(self) -> None:
        acts = [self.claim, self.claim, self.mark, self.complete, self.complete, self.freeze, self.thaw]
        act = self.rng.choice([*acts, None, None, "join"])
        if act is None:
            await self.sweep()
        elif act == "join" or not self.believed:
            await self.join()
        else:
            await act(self.rng.choice([*self.believed]))

    def check(self) -> None:
        assert self.tables.query(DOUBLE_RUNS) == [], "a queue and its job have different owners"
        assert self.tables.query(FORGOTTEN) == [], "a job is held by a worker that nobody knows"
        assert [job_id for job_id, count in self.ended.items() if count > 1] == []
        assert len(self.tables.jobs()) + len(self.ended) == JOBS, "a job was lost"
        assert all(job["attempts"] in (0, 1) for job in self.tables.jobs()), "an attempt was lost or given twice"


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_each_job_ends_once_and_nothing_stays_locked(
    seed: int, tables: Tables, sweeper: Client
) -> None:
    scene = Scene(tables, sweeper, random.Random(seed))
    for number in range(JOBS):
        tables.add_job(f"task {number % 2}", queue_name=f"q{number % 3}" if number % 2 else None)
    for _ in range(STEPS):
        await scene.step()
        scene.check()
    for worker in scene.believed:
        await scene.freeze(worker)
    await scene.sweep()
    assert all(job["locked_by"] is None for job in tables.jobs())
    assert tables.workers() == []
