"""A claim that was lost settles nothing: not the job, not its queue, not by accident."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Fail, JobSpec, Snooze, WorkerContext
from ferryman.hooks import HookRegistry, JobComplete, JobFail, JobPermanentlyFail, SettleOutcome, SettleRefused
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, queues, run_all, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import App, Client

pytestmark = pytest.mark.claims


class Hold:
    """A job, `hold`, that runs until it is told how to end, and the events about it."""

    def __init__(self, app: App) -> None:
        self.has_begun = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.hooks = HookRegistry()
        self.events: list[Any] = []
        for event in (JobComplete, JobFail, JobPermanentlyFail, SettleRefused):
            self.hooks.on(event, self.events.append)

        @app.task
        async def hold(ctx: WorkerContext) -> None:
            self.has_begun.set()
            await self.end


@pytest.fixture
async def held(app: App) -> Hold:
    return Hold(app)


ENDINGS = [
    pytest.param(lambda end: end.set_result(None), SettleOutcome.COMPLETE, id="done"),
    pytest.param(lambda end: end.set_exception(ValueError("x")), SettleOutcome.FAIL, id="failed"),
    pytest.param(lambda end: end.set_exception(Fail("x")), SettleOutcome.FAIL, id="failed for good"),
    pytest.param(lambda end: end.set_exception(Snooze(timedelta())), SettleOutcome.RETURN, id="snoozed"),
]


def taken_by(connection: psycopg.Connection, owner: str) -> None:
    """What a sweep and a new claim leave behind."""
    for table in ("jobs", "job_queues"):
        connection.execute(
            f"update graphile_worker._private_{table} set locked_by = %s, locked_at = clock_timestamp()", [owner]
        )


@pytest.mark.parametrize("is_same_worker", [False, True], ids=["another worker", "the same worker"])
@pytest.mark.parametrize(("end", "meant"), ENDINGS)
async def test_a_lost_claim_settles_nothing(
    *,
    app: App,
    client: Client,
    connection: psycopg.Connection,
    held: Hold,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[asyncio.Future[None]], None],
    meant: SettleOutcome,
    is_same_worker: bool,
) -> None:
    worker = worker_of(app, hooks=held.hooks)
    added = await client.add_raw_job("hold", spec=JobSpec(queue_name="letters"))

    async with running(worker):
        await asyncio.wait_for(held.has_begun.wait(), 60)
        taken_by(connection, worker.worker_id if is_same_worker else "another")
        before = [*jobs(connection), *queues(connection)]
        end(held.end)
        await until(lambda: held.events != [], "something is told")

    [refused] = held.events
    assert (refused.job_id, refused.worker_id, refused.outcome) == (added.id, worker.worker_id, meant)
    assert [row[:-1] for row in before] == [row[:-1] for row in [*jobs(connection), *queues(connection)]]
    assert len(logged(caplog, "settlement_refused", job_id=added.id, worker_id=worker.worker_id)) == 1


async def test_an_unlocked_job_is_not_completed_either(
    app: App, client: Client, connection: psycopg.Connection, held: Hold
) -> None:
    worker = worker_of(app, hooks=held.hooks, concurrency=1)
    await client.add_raw_job("hold", spec=JobSpec(queue_name="letters"))

    async with running(worker):
        await asyncio.wait_for(held.has_begun.wait(), 60)
        await client.force_unlock_workers([worker.worker_id])
        worker.request_shutdown()
        held.end.set_result(None)

    job = only_job(connection)
    assert (job.attempts, job.locked_at) == (1, None)
    assert [type(event) for event in held.events] == [SettleRefused]


@pytest.mark.parametrize("error", [None, ValueError("x")], ids=["done", "failed"])
async def test_a_job_that_was_deleted_under_us_still_frees_its_queue(
    app: App, client: Client, connection: psycopg.Connection, held: Hold, error: Exception | None
) -> None:
    await client.add_raw_job("hold", spec=JobSpec(queue_name="letters"))

    async with running(worker_of(app, hooks=held.hooks)):
        await asyncio.wait_for(held.has_begun.wait(), 60)
        connection.execute("delete from graphile_worker._private_jobs")
        assert queues(connection)[0].locked_at is not None
        if error is None:
            held.end.set_result(None)
        else:
            held.end.set_exception(error)
        await until(lambda: held.events != [], "something is told")

    assert [type(event) for event in held.events] == [SettleRefused]
    assert [(queue.locked_by, queue.locked_at) for queue in queues(connection)] == [(None, None)]


async def test_a_lost_claim_does_not_hurt_the_others_in_its_batch(
    app: App, client: Client, connection: psycopg.Connection, held: Hold
) -> None:
    lost = await client.add_raw_job("hold")

    async with running(worker_of(app, hooks=held.hooks)):
        await asyncio.wait_for(held.has_begun.wait(), 60)
        taken_by(connection, "another")
        held.has_begun.clear()
        kept = await client.add_raw_job("hold")
        await asyncio.wait_for(held.has_begun.wait(), 60)
        held.end.set_result(None)
        await until(lambda: len(held.events) == 2, "both are told")

    assert {getattr(event, "job_id", None) or event.job.id: type(event) for event in held.events} == {
        lost.id: SettleRefused,
        kept.id: JobComplete,
    }
    assert only_job(connection).locked_by == "another"


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completes", "fails"])
async def test_a_claim_of_the_same_moment_by_another_worker_is_told_apart(
    app: App, client: Client, connection: psycopg.Connection, error: Exception | None
) -> None:
    """Two workers may claim at one moment: the time alone is no fence."""

    @app.task
    async def work() -> None:
        for table in ("_private_jobs", "_private_job_queues"):
            connection.execute(f"update graphile_worker.{table} set locked_by = 'another'")
        if error is not None:
            raise error

    await client.add_job(work.job(), JobSpec(queue_name="letters"))
    await run_all(app)

    [job] = connection.execute("select locked_by, last_error from graphile_worker._private_jobs").fetchall()
    [queue] = connection.execute("select locked_by from graphile_worker._private_job_queues").fetchall()
    assert (job, queue) == (("another", None), ("another",))
