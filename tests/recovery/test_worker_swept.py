"""Handlers of a live worker that was declared dead: what they notice."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import App, Client, LocalQueueConfig, SweepStaleWorkersOptions, SyncClient, WorkerContext
from ferryman.errors import LeaseLostError
from ferryman.hooks import AfterJobRun, BeforeJobRun, HookRegistry, SettleRefused
from ferryman.worker.running.children.process import Child
from tests.support.inside import inside
from tests.support.processes import gone, noted_pid
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.waiting import DEADLINE_SECONDS, until
from tests.support.workers import running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fleet import Fleet

JOBS = 4


async def take_jobs(fleet: Fleet, worker_id: str) -> None:
    """Sweep a live worker. No other worker runs its jobs within this test."""
    options = SweepStaleWorkersOptions(worker_ids=[worker_id], recovery_delay=timedelta(hours=1))
    with SyncClient(fleet.dsn) as client:
        # Its own sweeps may have the lock right now.
        await until(lambda: client.sweep_stale_workers(options).recovered_count == 1, "the worker is swept")


async def test_a_handler_in_a_thread_can_ask_whether_its_job_was_taken_away(fleet: Fleet) -> None:
    """Threads cannot be cancelled. This one ends by itself."""
    app, has_begun, noticed = App(fleet.dsn), threading.Event(), []

    @app.task
    def compute(ctx: WorkerContext) -> None:
        has_begun.set()
        ends_at = time.monotonic() + DEADLINE_SECONDS
        while not ctx.lease_lost and time.monotonic() < ends_at:
            time.sleep(0.01)
        noticed.append(ctx.lease_lost)

    await fleet.add("compute")
    worker = worker_of(app, recovery=recovery_of(PATIENT))
    async with running(worker):
        await until(has_begun.is_set, "the job runs")
        await take_jobs(fleet, worker.worker_id)
        await until(lambda: noticed == [True], "the handler notices")


async def test_a_handler_that_was_swept_cannot_complete_its_job_in_a_transaction(fleet: Fleet) -> None:
    app, refused, has_begun, gate = App(fleet.dsn), [], asyncio.Event(), asyncio.Event()

    @app.task
    async def pay(ctx: WorkerContext) -> None:
        has_begun.set()
        with suppress(asyncio.CancelledError):
            await gate.wait()
        async with Client(fleet.dsn) as client, client.pool.connection() as connection:
            try:
                await ctx.complete_in(connection)
            except LeaseLostError as error:
                refused.append(error)

    [job] = await fleet.add("pay")
    worker = worker_of(app, recovery=recovery_of(PATIENT))
    async with running(worker):
        await until(has_begun.is_set, "the job runs")
        await take_jobs(fleet, worker.worker_id)
        await until(lambda: len(refused) == 1, "the completion is refused")
    assert fleet.job(job).attempts == 0


async def test_a_handler_in_a_child_process_is_ended_when_its_job_is_taken_away(fleet: Fleet, tmp_path: Path) -> None:
    app = App(fleet.dsn)
    app.include(process_tasks.app)
    begun = tmp_path / "begun"
    await fleet.add("begin", path=str(begun))
    worker = worker_of(app, recovery=recovery_of(PATIENT))
    async with running(worker):
        child = await noted_pid(begun)
        await take_jobs(fleet, worker.worker_id)
        await gone(child)


@pytest.mark.parametrize("waits", ["in a local queue", "for a slot", "for a hook"])
async def test_a_worker_that_thaws_starts_nothing_that_it_claimed_before_it_was_swept(fleet: Fleet, waits: str) -> None:
    """The loop stands still until the worker has a new id and looks safe again. Claims of the old id come first."""
    app, hooks = App(fleet.dsn), HookRegistry()
    started: list[tuple[int, str]] = []
    refused: list[int] = []
    hooks.on(SettleRefused, lambda event: refused.append(event.job_id))

    def freeze() -> None:
        swept_id = worker.worker_id
        ends_at = time.monotonic() + DEADLINE_SECONDS
        with SyncClient(fleet.dsn) as client:
            options = SweepStaleWorkersOptions(worker_ids=[swept_id], recovery_delay=timedelta(hours=1))
            while client.sweep_stale_workers(options).recovered_count < JOBS:
                assert time.monotonic() < ends_at, "never happened: the worker is swept"
                time.sleep(0.01)
        while worker.worker_id == swept_id or inside(worker).may_be_dead:
            assert time.monotonic() < ends_at, "never happened: the worker is safe under another id"
            time.sleep(0.01)

    @app.task
    async def work(ctx: WorkerContext) -> None:
        started.append((ctx.job.id, ctx.worker_id))
        if waits != "for a hook" and worker.worker_id == first_id:
            freeze()

    if waits == "for a hook":

        @hooks.on(BeforeJobRun)
        def begin(event: BeforeJobRun) -> None:
            if worker.worker_id == first_id:
                freeze()

    jobs = await fleet.add("work", count=JOBS)
    options = {"local_queue": LocalQueueConfig(size=JOBS)} if waits == "in a local queue" else {}
    worker = worker_of(app, concurrency=JOBS, hooks=hooks, recovery=recovery_of(PATIENT), **options)
    first_id = worker.worker_id
    async with running(worker):
        await until(lambda: {*refused} == {*jobs}, "all that was claimed is refused")
    assert started == ([] if waits == "for a hook" else [(jobs[0], first_id)])


async def test_a_machine_that_was_suspended_starts_nothing_before_the_database_has_heard_of_it(fleet: Fleet) -> None:
    """The clock of the safety window runs while the machine sleeps; others may have recovered its jobs by then."""
    app, gate, started = App(fleet.dsn), asyncio.Event(), []

    @app.task
    async def work(ctx: WorkerContext) -> None:
        started.append(ctx.job.id)
        if len(started) == 1:
            inside(worker).suspend(3_600)
            assert inside(worker).may_be_dead
        await gate.wait()

    jobs = await fleet.add("work", count=JOBS)
    worker = worker_of(app, concurrency=1, local_queue=LocalQueueConfig(size=JOBS), recovery=recovery_of(PATIENT))
    async with running(worker):
        await until(lambda: started == jobs[:1], "the first job runs")
        gate.set()
        await until(lambda: started == jobs, "the others run once a beat is confirmed")


async def test_a_job_that_was_lost_while_a_child_process_was_started_for_it_does_not_run_there(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has another name by then, under which it claims the job again."""
    app, hooks, told = App(fleet.dsn), HookRegistry(), []
    app.include(process_tasks.app)
    hooks.on(AfterJobRun, lambda event: told.append(event.worker_id))
    worker = worker_of(app, hooks=hooks)
    names, start = [worker.worker_id], Child.start

    def start_slowly() -> Child:
        if len(names) == 1:
            inside(worker).identity.renew()
            names.append(worker.worker_id)
        return start()

    monkeypatch.setattr(Child, "start", start_slowly)
    [job] = await fleet.add("note", path=str(tmp_path / "note"))

    await worker.run_once()

    assert (tmp_path / "note").read_text().startswith(f"{job} {names[1]} ")
    assert told == [names[1]]
