"""Hooks that take long, or never return, cost their own time: outcomes are written, and the worker ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Fail, JobSpec, LocalQueueConfig, RawJobSpec
from ferryman.hooks import (
    HookRegistry,
    JobComplete,
    JobFail,
    JobPermanentlyFail,
    JobStart,
    LocalQueueGetJobsComplete,
    WorkerInit,
    WorkerShutdown,
    WorkerStart,
)
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import jobs, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

JOBS = 12


async def hang(event: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def hooks() -> HookRegistry:
    return HookRegistry()


@pytest.fixture
def _short_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS_TO_FLUSH", "SECONDS_AFTER_HURRY", "SECONDS_FOR_SHUTDOWN_HOOKS"):
        monkeypatch.setattr(f"ferryman.worker.life.{name}", 0.5, raising=False)


@pytest.mark.usefixtures("_short_end")
@pytest.mark.parametrize("way", ["direct", "local queue", "named queues", "failures"])
async def test_while_hooks_hang_all_outcomes_are_written_and_the_worker_ends(
    *,
    app: App,
    client: Client,
    connection: psycopg.Connection,
    hooks: HookRegistry,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    for event in (JobComplete, JobPermanentlyFail, LocalQueueGetJobsComplete):
        hooks.on(event, hang)

    @app.task
    async def end(number: int) -> None:
        if way == "failures":
            raise Fail("no use")

    spec = JobSpec(queue_name="{number}") if way == "named queues" else JobSpec()
    options: dict[str, Any] = {"local_queue": LocalQueueConfig(size=JOBS)} if way == "local queue" else {}
    async with running(worker_of(app, concurrency=2, hooks=hooks, **options)):
        for number in range(JOBS):
            await client.add_raw_job("end", {"number": number}, spec=spec)
        if way == "failures":
            await until(lambda: {job.attempts for job in jobs(connection)} == {25}, "all failures are written")
        else:
            await until(lambda: jobs(connection) == [], "all completions are written")
    assert not logged(caplog, "outcomes_unwritten")
    assert len(logged(caplog, "events_untold")) == 1


async def test_hooks_are_told_of_the_ends_of_several_jobs_at_the_same_time(
    app: App, client: Client, hooks: HookRegistry
) -> None:
    """Each hook waits for the others: one after the other they would wait for ever."""
    entered: list[int] = []
    all_entered = asyncio.Event()

    @app.task
    async def end(number: int) -> None: ...

    @hooks.on(JobComplete)
    async def note(event: JobComplete) -> None:
        entered.append(event.job.id)
        if len(entered) == 4:
            all_entered.set()
        await all_entered.wait()

    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(4)])
    await asyncio.wait_for(run_all(app, concurrency=4, hooks=hooks), 60)

    assert len(entered) == 4


async def test_what_hooks_add_after_the_last_job_is_run_once_too(app: App, client: Client, hooks: HookRegistry) -> None:
    ran: list[int] = []

    @app.task
    async def end(number: int) -> None:
        ran.append(number)

    @hooks.on(JobComplete)
    async def follow(event: JobComplete) -> None:
        await asyncio.sleep(0.05)
        if event.job.payload["number"] < 3:
            await client.add_job(end.job(number=event.job.payload["number"] + 1))

    await client.add_job(end.job(number=1))
    await run_all(app, hooks=hooks)

    assert ran == [1, 2, 3]


async def test_no_more_jobs_are_claimed_while_hooks_are_far_behind(
    app: App, client: Client, hooks: HookRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.worker.settling.backlog.MOST_UNSETTLED_PER_SLOT", 3)
    ran: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def end(number: int) -> None:
        ran.append(number)

    @hooks.on(JobComplete)
    async def wait(event: JobComplete) -> None:
        await go_on.wait()

    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(50)])
    worker = worker_of(app, concurrency=2, hooks=hooks)
    async with running(worker):
        await until(lambda: ran != [] and inside(worker).is_claiming_paused, "hooks are far behind")
        await until(lambda: inside(worker).running == [], "those that were claimed have run")
        assert len(ran) <= 2 * 3 + 4
        go_on.set()
        await until(lambda: sorted(ran) == list(range(50)), "all have run, without waiting for a poll")


async def test_a_hook_over_its_limit_is_named_and_the_job_runs(
    app: App, client: Client, hooks: HookRegistry, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.on(JobStart, hang, timeout=timedelta(milliseconds=50))
    hooks.on(JobFail, hang, timeout=timedelta(milliseconds=50))

    @app.task
    async def end() -> None:
        raise ValueError("no use")

    await client.add_raw_job("end")
    await run_all(app, hooks=hooks)

    assert [job.attempts for job in jobs(connection)] == [1]
    hooks_named = [record.hook for record in logged(caplog, "hook_timed_out")]
    assert hooks_named == [f"{name} hook {__name__}.hang" for name in ("JobStart", "JobFail")]


@pytest.mark.usefixtures("_short_end")
@pytest.mark.parametrize("event", [WorkerInit, WorkerStart, WorkerShutdown])
async def test_a_hook_of_the_worker_that_hangs_cannot_keep_it_from_ending(
    app: App, hooks: HookRegistry, event: type
) -> None:
    has_begun = asyncio.Event()
    hooks.on(WorkerStart, lambda _: has_begun.set())

    @hooks.on(event)
    async def hang(_: object) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    worker = worker_of(app, hooks=hooks)
    life = asyncio.create_task(worker.run())
    await asyncio.wait_for(has_begun.wait(), 60)
    worker.request_shutdown()
    await asyncio.wait_for(life, 60)
