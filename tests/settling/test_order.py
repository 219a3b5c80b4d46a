"""Jobs that were claimed and not started keep their place: a named queue goes on in its order."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import App, LocalQueueConfig, WorkerRecoveryConfig
from ferryman.hooks import HookRegistry, LocalQueueReturnJobs
from ferryman.worker.start_guard import StartGuard
from tests.support.waiting import somebody_waits_for_a_lock, until
from tests.support.workers import run_all, running, worker_of

if TYPE_CHECKING:
    from tests.support.tables import Tables

pytestmark = pytest.mark.claims

ORDER = [1, 2, 3, 4]


class Turns:
    """A named queue with four jobs, of which at most one runs, and what has become of them."""

    def __init__(self, dsn: str, tables: Tables) -> None:
        self.app = App(dsn)
        self.ran: list[int] = []
        self.slot_is_free = asyncio.Event()
        self.hooks = HookRegistry()
        self.returned: list[int] = []
        self.hooks.on(LocalQueueReturnJobs, lambda event: self.returned.append(event.jobs_count))
        self.app.task(self.take_turn)
        self.app.task(self.block)
        self._tables = tables
        tables.connection.execute(
            """
            create table claims (job_id bigint);
            create function note_claim() returns trigger language plpgsql as
            $$ begin insert into public.claims values (new.id); return null; end $$;
            create trigger note_claim after update on graphile_worker._private_jobs
            for each row when (old.locked_by is null and new.locked_by is not null) execute function note_claim();
            """
        )

    async def take_turn(self, number: int) -> None:
        self.ran.append(number)

    async def block(self) -> None:
        """Keep a slot busy."""
        await self.slot_is_free.wait()

    def add(self) -> list[Any]:
        """Add the jobs, each a little later than the one before; when they are due."""
        for number in ORDER:
            self._tables.add_job("take_turn", payload={"number": number}, queue_name="in turn")
        return self.due()

    def due(self) -> list[Any]:
        rows = self._tables.query("select run_at from graphile_worker._private_jobs where job_queue_id = 1 order by id")
        return [row["run_at"] for row in rows]

    def claimed(self) -> list[int]:
        """The jobs of the queue that were claimed, in order."""
        rows = self._tables.query(
            "select (job.payload->>'number')::int as number"
            " from claims join graphile_worker._private_jobs as job on job.id = claims.job_id and job_queue_id = 1"
        )
        return [row["number"] for row in rows]

    def is_given_back(self) -> bool:
        """Whether the first job was claimed, and is as it was before. One statement, for a claim may be under way."""
        [row] = self._tables.query(
            """
            select (select count(*) from claims where job_id = job.id) as claims, attempts,
                coalesce(job.locked_by, queue.locked_by) as locked_by
            from graphile_worker._private_jobs as job
            join graphile_worker._private_job_queues as queue on queue.id = job.job_queue_id
            where job.payload->>'number' = '1'
            """
        )
        return row == {"claims": 1, "attempts": 0, "locked_by": None}


@pytest.fixture
async def turns(database: str, tables: Tables) -> Turns:
    return Turns(database, tables)


async def test_a_worker_that_stops_gives_the_first_job_of_a_queue_its_place_back(turns: Turns, tables: Tables) -> None:
    tables.add_job("block", priority=-10)
    due = turns.add()

    async with running(worker_of(turns.app, concurrency=1, local_queue=LocalQueueConfig())):
        await until(lambda: turns.claimed() == [1], "the first job waits in the local queue")
        turns.slot_is_free.set()  # but not before the worker is told to stop, which is the next step

    assert (turns.ran, turns.due(), turns.is_given_back()) == ([], due, True)
    await run_all(turns.app)
    assert turns.ran == ORDER


async def test_a_job_that_waited_too_long_in_a_local_queue_has_its_place_back(turns: Turns, tables: Tables) -> None:
    tables.add_job("block", priority=-10)
    due = turns.add()
    ttl = LocalQueueConfig(ttl=timedelta(milliseconds=100))

    async with running(worker_of(turns.app, concurrency=1, local_queue=ttl, hooks=turns.hooks)):
        await until(lambda: turns.returned == [1], "the first job is given back")
        assert (turns.due(), turns.is_given_back()) == (due, True)
        turns.slot_is_free.set()
        await until(lambda: len(turns.ran) == len(ORDER), "all have run")

    assert turns.ran == ORDER


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig()], ids=["direct", "local queue"])
async def test_a_claim_that_comes_back_after_the_worker_was_told_to_stop_leaves_the_order_as_it_was(
    turns: Turns, tables: Tables, database: str, local_queue: LocalQueueConfig | None
) -> None:
    due = turns.add()
    worker = worker_of(turns.app, local_queue=local_queue, shutdown={"grace_period": timedelta(minutes=1)})

    with psycopg.connect(database) as holder:
        holder.execute("lock table graphile_worker._private_job_queues in access exclusive mode")
        async with running(worker):
            await until(lambda: somebody_waits_for_a_lock(tables.connection), "the claim is under way")
            worker.request_shutdown()
            holder.commit()

    assert (turns.ran, turns.due(), turns.is_given_back()) == ([], due, True)
    await run_all(turns.app)
    assert turns.ran == ORDER


async def test_a_claim_that_comes_back_to_a_worker_that_may_be_dead_leaves_the_order_as_it_was(
    turns: Turns, tables: Tables, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_be_dead = False
    monkeypatch.setattr(StartGuard, "may_be_dead", property(lambda _: may_be_dead))
    due = turns.add()
    recovery = WorkerRecoveryConfig(enabled=True)  # which sweeps once a minute, and beats too seldom to get in between

    with psycopg.connect(database) as holder:
        holder.execute("lock table graphile_worker._private_job_queues in access exclusive mode")
        async with running(worker_of(turns.app, recovery=recovery)):
            await until(lambda: somebody_waits_for_a_lock(tables.connection), "the claim is under way")
            may_be_dead = True
            holder.commit()
            await until(turns.is_given_back, "the first job is given back")
            assert (turns.ran, turns.due()) == ([], due)
            may_be_dead = False
            await until(lambda: len(turns.ran) == len(ORDER), "all have run")

    assert turns.ran == ORDER
