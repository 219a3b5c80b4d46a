"""The end of a worker is taken step by step: what goes wrong with one job or one step does no harm to the others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import WorkerContext  # noqa: TC001 - a worker looks at the annotations of its tasks
from ferryman.hooks import HookRegistry, JobRecovery, JobRecoveryResult, ShutdownReason, WorkerShutdown
from ferryman.worker.claiming.claims import Claim
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import MINUTES, jobs, only_job, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client


class Pendulum(datetime):
    """A datetime as other libraries make them."""


async def test_a_worker_whose_task_numbers_were_cleaned_away_writes_all_outcomes_when_it_ends(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    done: list[int] = []
    has_begun = asyncio.Event()

    @app.task
    async def wait() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    @app.task
    async def note(number: int) -> None:
        done.append(number)

    await client.add_raw_job("wait")
    worker = worker_of(app, complete_job_batch_delay=MINUTES, shutdown={"grace_period": timedelta()})
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        before = inside(worker).task_numbers
        # As `ferryman cleanup` does with tasks that have no jobs.
        connection.execute("delete from graphile_worker._private_jobs; delete from graphile_worker._private_tasks")
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: done == [1], "the other job has run")
        assert inside(worker).task_numbers != before

    assert jobs(connection) == []


async def test_an_interrupted_job_whose_row_cannot_be_decoded_goes_back_and_the_others_are_settled(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks, done = HookRegistry(), []
    hooks.on(JobRecovery, lambda _: None)
    has_begun = asyncio.Event()

    @app.task
    async def wait() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    @app.task
    async def note() -> None:
        done.append(1)

    odd = await client.add_raw_job("wait")
    connection.execute("update graphile_worker._private_jobs set run_at = '-infinity'")
    await client.add_raw_job("note")
    worker = worker_of(app, hooks=hooks, complete_job_batch_delay=MINUTES, shutdown={"grace_period": timedelta()})
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        await until(lambda: done, "the other job has run")

    question = "select id, attempts, locked_by from graphile_worker._private_jobs"
    assert connection.execute(question).fetchall() == [(odd.id, 0, None)]


async def test_a_job_with_a_context_whose_row_cannot_be_decoded_leaves_nothing_behind_in_the_worker(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("this row makes no sense")

    monkeypatch.setattr(Claim, "job", refuse)

    @app.task
    async def work(ctx: WorkerContext) -> None: ...

    await client.add_raw_job("work")
    worker = worker_of(app)
    async with running(worker):
        question = "select attempts, locked_by from graphile_worker._private_jobs"
        await until(lambda: connection.execute(question).fetchall() == [(1, None)], "the attempt has failed")
        assert inside(worker).leases == []


async def test_a_schema_that_is_gone_at_the_end_keeps_neither_the_worker_nor_its_last_event(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECONDS_TO_FLUSH", "SECONDS_AFTER_HURRY"):
        monkeypatch.setattr(f"ferryman.worker.life.{name}", 0.5)
    hooks, reasons, has_begun = HookRegistry(), [], asyncio.Event()
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))

    @app.task
    async def wait() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    await client.add_raw_job("wait")
    shutdown = {"grace_period": timedelta()}
    worker = worker_of(app, hooks=hooks, use_notification_delivery=False, shutdown=shutdown)
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        inside(worker).lost_replies.reply_lost(worker.worker_id)
        # Not dropped: that locks one table after the other, and can deadlock with a statement of the worker.
        connection.execute("alter schema graphile_worker rename to gone")

    assert reasons == [ShutdownReason.GRACEFUL]


async def test_a_step_that_fails_is_logged_and_the_next_steps_follow(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    hooks, reasons, done = HookRegistry(), [], []
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))

    @app.task
    async def note() -> None:
        done.append(1)

    await client.add_raw_job("note")
    worker = worker_of(app, hooks=hooks, complete_job_batch_delay=MINUTES)
    async with running(worker):
        await until(lambda: done, "the job has run")
        inside(worker).slots.end = None  # type: ignore[assignment]

    assert (jobs(connection), reasons) == ([], [ShutdownReason.GRACEFUL])
    assert len(logged(caplog, "ending_step_failed")) == 1


async def test_a_hook_that_answers_with_a_datetime_of_another_library_decides_and_holds_up_nobody(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks, done, has_begun = HookRegistry(), [], asyncio.Event()
    later = Pendulum(2040, 1, 1, tzinfo=UTC)
    hooks.on(JobRecovery, lambda _: JobRecoveryResult.Reschedule(run_at=later))

    @app.task
    async def wait() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    @app.task
    async def note() -> None:
        done.append(1)

    waiting = await client.add_raw_job("wait")
    await client.add_raw_job("note")
    worker = worker_of(app, hooks=hooks, complete_job_batch_delay=MINUTES, shutdown={"grace_period": timedelta()})
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        await until(lambda: done, "the other job has run")

    assert [(job.id, job.run_at, job.locked_by) for job in jobs(connection)] == [(waiting.id, later, None)]


async def test_cancelling_run_is_the_same_as_a_request(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks, asked, reasons, noticed = HookRegistry(), [], [], []
    hooks.on(JobRecovery, lambda event: asked.append(event.job.id))
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))

    @app.task
    async def polite(ctx: WorkerContext) -> None:
        await ctx.shutting_down.wait()
        noticed.append(ctx.is_shutting_down)

    @app.task
    async def stubborn() -> None:
        await asyncio.Event().wait()

    await client.add_raw_job("polite")
    stubborn_job = await client.add_raw_job("stubborn")
    worker = worker_of(app, hooks=hooks, shutdown={"grace_period": timedelta(seconds=1)})
    life = asyncio.create_task(worker.run())
    await until(lambda: inside(worker).is_alive and len(inside(worker).running) == 2, "both run")
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life

    assert (noticed, asked, reasons) == ([True], [stubborn_job.id], [ShutdownReason.GRACEFUL])
    job = only_job(connection)
    assert (job.id, job.attempts, job.locked_by) == (stubborn_job.id, 0, None)


async def test_cancelling_run_again_while_it_ends_loses_no_outcome(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks, reasons, has_begun, go_on = HookRegistry(), [], asyncio.Event(), asyncio.Event()
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))

    @app.task
    async def work() -> None:
        has_begun.set()
        await go_on.wait()

    await client.add_raw_job("work")
    worker = worker_of(app, hooks=hooks, shutdown={"grace_period": MINUTES})
    life = asyncio.create_task(worker.run())
    await asyncio.wait_for(has_begun.wait(), 60)
    for _ in range(3):
        life.cancel()
        await until(lambda: inside(worker).is_stopping, "it is asked to stop")
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await life

    assert (jobs(connection), reasons) == ([], [ShutdownReason.GRACEFUL])
