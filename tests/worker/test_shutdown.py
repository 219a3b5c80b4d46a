"""How a worker ends: running jobs get their time, then go back as if they had not been tried."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import Client, FerrymanError, JobSpec, WorkerContext
from ferryman.hooks import (
    FailureReason,
    HookRegistry,
    JobFail,
    JobInterrupted,
    JobRecovery,
    JobRecoveryResult,
    ShutdownReason,
    WorkerShutdown,
    WorkerStart,
)
from ferryman.worker import stopping
from ferryman.worker.running import slots as module
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.rhythms import recovery_of
from tests.support.waiting import somebody_waits_for_a_lock, until
from tests.support.workers import MINUTES, jobs, only_job, queues, running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ferryman import App, Worker

INTERRUPTED = "Job recovered after worker interruption"


def define(app: App, body: Callable[[], Awaitable[Any]], *, name: str = "work") -> asyncio.Event:
    """Define a task that does this; the event is set when it has begun."""
    has_begun = asyncio.Event()

    @app.task(identifier=name, aliases=[f"old_{name}"])
    async def work() -> None:
        has_begun.set()
        await body()

    return has_begun


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def test_running_jobs_may_finish(app: App, client: Client, connection: psycopg.Connection) -> None:
    go_on, worker = asyncio.Event(), worker_of(app)
    has_begun = define(app, go_on.wait)
    await client.add_raw_job("work")

    async with running(worker) as life:
        await asyncio.wait_for(has_begun.wait(), 60)
        worker.request_shutdown()
        await asyncio.sleep(0)
        assert not life.done()
        go_on.set()

    assert jobs(connection) == []


async def test_handlers_can_see_that_the_worker_is_ending(app: App, client: Client, connection) -> None:
    seen, worker = asyncio.Queue(), worker_of(app)

    @app.task
    async def work(ctx: WorkerContext) -> None:
        seen.put_nowait(ctx.is_shutting_down)
        await ctx.shutting_down.wait()
        seen.put_nowait(ctx.is_shutting_down)

    await client.add_raw_job("work")
    async with running(worker):
        assert await asyncio.wait_for(seen.get(), 60) is False
        worker.request_shutdown()
        assert await asyncio.wait_for(seen.get(), 60) is True

    assert jobs(connection) == []


async def test_a_job_over_the_grace_period_goes_back_as_if_untried(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    told, hooks = [], HookRegistry()
    for event in (JobInterrupted, JobFail):
        hooks.on(event, told.append)
    has_begun = define(app, wait_for_ever)
    await client.add_raw_job("work", spec=JobSpec(queue_name="letters"))

    async with running(worker_of(app, hooks=hooks, shutdown={"grace_period": timedelta(milliseconds=50)})):
        await asyncio.wait_for(has_begun.wait(), 60)

    job = only_job(connection)
    assert (job.attempts, job.locked_at, job.last_error) == (0, None, INTERRUPTED)
    assert 25 < job.due_in <= 30
    assert queues(connection)[0].locked_at is None
    assert [type(event) for event in told] == [JobInterrupted]


async def test_the_attempts_of_an_interrupted_job_never_fall_below_zero(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    has_begun = define(app, wait_for_ever)
    await client.add_raw_job("work")

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await asyncio.wait_for(has_begun.wait(), 60)
        connection.execute("update graphile_worker._private_jobs set attempts = 0")

    assert (only_job(connection).attempts, only_job(connection).locked_at) == (0, None)


async def test_the_delay_of_interrupted_jobs_can_be_chosen(app: App, client: Client, connection) -> None:
    has_begun = define(app, wait_for_ever)
    await client.add_raw_job("work")
    shutdown = {"grace_period": timedelta(), "interrupted_job_retry_delay": timedelta(seconds=500)}

    async with running(worker_of(app, shutdown=shutdown)):
        await asyncio.wait_for(has_begun.wait(), 60)

    assert only_job(connection).due_in == pytest.approx(500, abs=5)


async def test_asked_again_clearly_later_jobs_are_interrupted_at_once(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.worker.stopping.SECONDS_THAT_A_STORM_LASTS", 0.0)
    has_begun, worker = define(app, wait_for_ever), worker_of(app, shutdown={"grace_period": MINUTES})
    await client.add_raw_job("work")

    async with running(worker) as life:
        await asyncio.wait_for(has_begun.wait(), 60)
        worker.request_shutdown()
        worker.request_shutdown()
        await asyncio.wait_for(life, 60)

    job = only_job(connection)
    assert (job.attempts, job.locked_at, job.last_error) == (0, None, INTERRUPTED)


async def test_asked_again_at_once_jobs_keep_their_time(
    app: App, client: Client, connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "SECONDS_THAT_A_STORM_LASTS", 600)  # however long it takes to ask
    go_on, worker = asyncio.Event(), worker_of(app)
    has_begun = define(app, go_on.wait)
    await client.add_raw_job("work")

    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        for _ in range(50):
            worker.request_shutdown()
        await asyncio.sleep(0.05)
        go_on.set()

    assert jobs(connection) == []


async def swallow() -> None:
    try:
        await wait_for_ever()
    except asyncio.CancelledError:
        return


async def wrap() -> None:
    try:
        await wait_for_ever()
    except asyncio.CancelledError as error:
        raise ValueError("something else") from error


@pytest.mark.parametrize("body", [swallow, wrap])
async def test_whatever_a_handler_makes_of_its_cancellation_it_was_interrupted(
    app: App, client: Client, connection: psycopg.Connection, body: Callable[[], Awaitable[None]]
) -> None:
    has_begun = define(app, body)
    await client.add_raw_job("work")

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await asyncio.wait_for(has_begun.wait(), 60)

    job = only_job(connection)
    assert (job.attempts, job.locked_at, job.last_error) == (0, None, INTERRUPTED)


async def test_a_handler_that_never_ends_does_not_keep_the_worker(
    *,
    app: App,
    client: Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "CANCEL_GRACE_SECONDS", 0.1)
    end = asyncio.Event()

    async def ignore() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    has_begun = define(app, ignore)
    await client.add_raw_job("work")

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await asyncio.wait_for(has_begun.wait(), 60)

    job = only_job(connection)
    assert (job.attempts, job.locked_at, job.last_error) == (0, None, INTERRUPTED)
    assert logged(caplog, "cancellation_ignored")
    end.set()


async def test_a_thread_that_goes_on_does_not_keep_the_worker(
    app: App, client: Client, connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CANCEL_GRACE_SECONDS", 0.1)
    has_begun, end = threading.Event(), threading.Event()

    @app.task
    def work() -> None:
        has_begun.set()
        end.wait(30)

    await client.add_raw_job("work")
    async with running(worker_of(app, shutdown={"grace_period": timedelta()})) as life:
        await until(has_begun.is_set, "the job runs")
    end.set()

    assert life.done()
    assert (only_job(connection).attempts, only_job(connection).locked_at) == (0, None)


async def test_a_thread_that_ends_soon_after_the_grace_period_holds_its_queue_until_then_and_is_done(
    app: App, client: Client, connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be cancelled, so the next job of its queue would run beside it."""
    monkeypatch.setattr(module, "CANCEL_GRACE_SECONDS", 60)
    has_begun, end, worker = (
        threading.Event(),
        threading.Event(),
        worker_of(app, shutdown={"grace_period": timedelta()}),
    )

    @app.task
    def work() -> None:
        has_begun.set()
        end.wait(60)

    define(app, wait_for_ever, name="listen")
    await client.add_raw_job("work", spec=JobSpec(queue_name="letters"))
    listening = await client.add_raw_job("listen")
    async with running(worker):
        await until(has_begun.is_set, "the job runs")
        await until(lambda: len(inside(worker).running) == 2, "the other runs")
        worker.request_shutdown()
        await until(lambda: len(inside(worker).running) == 1, "the other was cancelled")
        assert queues(connection)[0].locked_by == worker.worker_id
        end.set()

    assert [job.id for job in jobs(connection)] == [listening.id]
    assert queues(connection)[0].locked_by is None


async def test_no_job_is_claimed_after_the_end_has_begun(app: App, client: Client, connection) -> None:
    go_on, worker = asyncio.Event(), worker_of(app, concurrency=1)
    has_begun = define(app, go_on.wait)
    await client.add_raw_job("work", spec=JobSpec(queue_name="letters"))

    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        for _ in range(3):
            await client.add_raw_job("work", spec=JobSpec(queue_name="letters"))
        worker.request_shutdown()
        go_on.set()

    assert [(job.attempts, job.locked_at) for job in jobs(connection)] == [(0, None)] * 3


async def test_small_jobs_that_have_not_begun_when_the_end_begins_are_given_back(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    """They were claimed together, and would have run one after the other in one slot."""
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)
        worker.request_shutdown()

    await client.add_jobs([note.job(number=number) for number in range(4)])
    worker = worker_of(app, concurrency=4)
    await worker.run()
    assert ran == [0]
    assert [(job.payload["number"], job.attempts, job.locked_at) for job in jobs(connection)] == [
        (number, 0, None) for number in (1, 2, 3)
    ]


async def test_a_claim_under_way_when_the_end_begins_is_given_back(
    app: App, connection: psycopg.Connection, observer: psycopg.Connection
) -> None:
    has_begun, worker = define(app, wait_for_ever), worker_of(app)

    async with running(worker):
        with connection.transaction():
            connection.execute("lock table graphile_worker._private_job_queues in access exclusive mode")
            await until(lambda: somebody_waits_for_a_lock(observer), "the worker is claiming")
            connection.execute("select graphile_worker.add_job('work')")
            worker.request_shutdown()

    job = only_job(connection)
    assert (job.attempts, job.locked_at, job.last_error, has_begun.is_set()) == (0, None, None, False)
    assert job.due_in <= 0


async def test_a_database_that_does_not_answer_does_not_keep_the_worker(
    app: App, connection: psycopg.Connection, observer: psycopg.Connection
) -> None:
    worker = worker_of(app, shutdown={"grace_period": timedelta(milliseconds=100)})

    async with running(worker) as life:
        with connection.transaction():
            connection.execute("lock table graphile_worker._private_job_queues in access exclusive mode")
            await until(lambda: somebody_waits_for_a_lock(observer), "the worker is claiming")
            worker.request_shutdown()
            await asyncio.wait_for(life, 60)


async def test_a_worker_that_was_asked_to_end_before_it_began_claims_nothing(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    define(app, wait_for_ever)
    await client.add_raw_job("work")
    worker = worker_of(app)
    worker.request_shutdown()

    await asyncio.wait_for(worker.run(), 60)

    assert only_job(connection).attempts == 0


async def test_an_idle_worker_ends_at_once(app: App, client: Client, connection: psycopg.Connection) -> None:
    worker = worker_of(app, shutdown={"grace_period": MINUTES})
    async with running(worker) as life:
        await until(lambda: inside(worker).can_stop, "the worker has started")
        worker.request_shutdown()
        await asyncio.wait_for(life, 60)


async def test_cancelling_run_gives_jobs_back(app: App, client: Client, connection: psycopg.Connection) -> None:
    has_begun = define(app, wait_for_ever)
    await client.add_raw_job("work")
    life = asyncio.create_task(worker_of(app, shutdown={"grace_period": timedelta()}).run())
    await asyncio.wait_for(has_begun.wait(), 60)

    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life

    assert (only_job(connection).attempts, only_job(connection).locked_at) == (0, None)


async def test_a_worker_that_is_cancelled_while_it_starts_leaves_no_task_behind(
    app: App, client: Client, connection: psycopg.Connection, database: str
) -> None:
    define(app, wait_for_ever)
    before = asyncio.all_tasks()
    with psycopg.connect(database) as other:
        other.execute("lock table graphile_worker._private_tasks")
        life = asyncio.create_task(worker_of(app).run())
        await until(lambda: somebody_waits_for_a_lock(connection), "the worker registers its tasks")
        life.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life

    await until(lambda: asyncio.all_tasks() == before, "nothing goes on in the background")


async def test_a_shutdown_signal_of_ones_own_ends_the_worker(app: App, client: Client) -> None:
    signal, reasons, hooks = asyncio.Event(), [], HookRegistry()
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))

    @app.task
    async def work() -> None:
        signal.set()

    await client.add_job(work.job())
    await asyncio.wait_for(worker_of(app, hooks=hooks, shutdown_signal=signal.wait).run(), 60)

    assert reasons == [ShutdownReason.GRACEFUL]


async def test_a_shutdown_signal_that_fails_ends_the_worker_too(app: App, caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise OSError("no such file")

    await asyncio.wait_for(worker_of(app, shutdown_signal=broken).run(), 60)

    assert logged(caplog, "shutdown_signal_failed")


async def test_a_program_that_handles_signals_itself_can_say_so(app: App) -> None:
    reasons, hooks = [], HookRegistry()
    hooks.on(WorkerShutdown, lambda event: reasons.append(event.reason))
    worker = worker_of(app, hooks=hooks)
    hooks.on(WorkerStart, lambda event: worker.request_shutdown(by_signal=True))

    await asyncio.wait_for(worker.run(), 60)

    assert reasons == [ShutdownReason.SIGNAL]


def interrupting(app: App, hooks: HookRegistry) -> tuple[asyncio.Event, Worker]:
    """A job that must be interrupted, and a worker that gives it no time."""
    return define(app, wait_for_ever), worker_of(app, hooks=hooks, shutdown={"grace_period": timedelta()})


async def test_hooks_decide_about_jobs_that_a_shutdown_interrupts(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    asked: list[JobRecovery] = []
    interrupted: list[FailureReason] = []
    hooks, later = HookRegistry(), datetime(2040, 1, 1, tzinfo=UTC)
    hooks.on(JobInterrupted, lambda event: interrupted.append(event.reason))

    @hooks.on(JobRecovery)
    def decide(event: JobRecovery) -> JobRecoveryResult:
        asked.append(event)
        return JobRecoveryResult.Reschedule(run_at=later, attempts=7)

    has_begun, worker = interrupting(app, hooks)
    added = await client.add_raw_job("old_work", spec=JobSpec(queue_name="letters"))
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)

    [event] = asked
    assert (event.job.id, event.reason) == (added.id, FailureReason.SHUTDOWN_ABORTED)
    assert event.job.task_identifier == "old_work", "the name that it carries, an alias of its task"
    assert (event.worker_id, event.previous_worker_id) == (worker.worker_id, worker.worker_id)
    assert event.started is True
    job = only_job(connection)
    assert (job.run_at, job.attempts, job.locked_at) == (later, 7, None)
    assert queues(connection)[0].locked_at is None
    assert interrupted == [FailureReason.SHUTDOWN_ABORTED]


async def test_a_hook_can_make_a_failure_of_an_interruption(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    hooks, failed, interrupted = HookRegistry(), [], []
    hooks.on(JobRecovery, lambda _: JobRecoveryResult.FailWithBackoff())
    hooks.on(JobFail, failed.append)
    hooks.on(JobInterrupted, interrupted.append)
    has_begun, worker = interrupting(app, hooks)
    await client.add_raw_job("work")
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)

    job = only_job(connection)
    assert (job.attempts, job.last_error, job.locked_at) == (1, "ShutdownAborted", None)
    assert job.due_in == pytest.approx(2.7, abs=2)
    assert (len(failed), len(interrupted)) == (0, 1)


@pytest.mark.parametrize("has_lost_a_reply", [False, True], ids=["in peace", "while it looks for lost claims"])
async def test_a_hook_can_leave_an_interrupted_job_locked(
    app: App, client: Client, connection: psycopg.Connection, has_lost_a_reply: bool
) -> None:
    hooks, interrupted = HookRegistry(), []
    hooks.on(JobRecovery, lambda _: JobRecoveryResult.Skip())
    hooks.on(JobInterrupted, interrupted.append)
    has_begun, worker = interrupting(app, hooks)
    await client.add_raw_job("work")
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        if has_lost_a_reply:
            lost = inside(worker).lost_replies
            lost._newest_token = 0
            lost.reply_lost(worker.worker_id)

    assert only_job(connection).locked_by == worker.worker_id
    assert interrupted == []


@pytest.mark.parametrize("fails", ["raises", "dawdles"])
async def test_a_hook_that_fails_or_dawdles_does_not_keep_a_job_or_the_worker(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr("ferryman.worker.running.interruptions.HOOK_SECONDS", 0.1)
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    async def decide(_: JobRecovery) -> None:
        if fails == "raises":
            raise ValueError("no idea")
        await wait_for_ever()

    has_begun, worker = interrupting(app, hooks)
    await client.add_raw_job("work")
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)

    job = only_job(connection)
    assert (job.attempts, job.last_error, job.locked_at) == (0, INTERRUPTED, None)


async def test_the_last_steps_are_hooks_then_deregistration_then_connections_then_lifespans(
    app: App, connection: psycopg.Connection
) -> None:
    hooks, clients, seen = HookRegistry(), list[Client](), list[tuple[str, int, bool]]()

    def registered() -> int:
        return connection.execute("select 1 from graphile_worker._private_workers").rowcount

    def note(step: str) -> None:
        seen.append((step, registered(), is_open(clients[0])))

    @hooks.on(WorkerShutdown)
    def tell(event: WorkerShutdown) -> None:
        clients.append(event.client)
        note("hooks")

    @app.lifespan
    async def shared() -> AsyncIterator[None]:
        yield
        note("lifespans")

    worker = worker_of(app, hooks=hooks, recovery=recovery_of())
    async with running(worker):
        await until(lambda: registered() == 1, "it has registered")

    assert seen == [("hooks", 1, True), ("lifespans", 0, False)]


def is_open(client: Client) -> bool:
    try:
        return client.pool is not None
    except FerrymanError:
        return False
