"""What hooks are told and asked about jobs: when, with what, and only what the database holds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Fail, JobSpec, Snooze
from ferryman.hooks import (
    AfterJobRun,
    BeforeJobRun,
    FailureReason,
    HookRegistry,
    JobComplete,
    JobFail,
    JobFetch,
    JobInterrupted,
    JobPermanentlyFail,
    JobStart,
    Reject,
    SettleRefused,
    ShutdownReason,
    Skip,
    WorkerInit,
    WorkerShutdown,
    WorkerStart,
)
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import due_now, jobs, only_job, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

OBSERVERS = [
    JobComplete, JobFail, JobFetch, JobInterrupted, JobPermanentlyFail, JobStart, SettleRefused, WorkerInit,
    WorkerShutdown, WorkerStart,
]  # fmt: skip


class Seen:
    """Every event, in order, with the rows that were in the table at that moment."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.hooks = HookRegistry()
        self.events: list[Any] = []
        self.rows: list[list[Any]] = []
        self._connection = connection
        for event in OBSERVERS:
            self.hooks.on(event, self._note)
        for event in (BeforeJobRun, AfterJobRun):
            self.hooks.on(event, self._note)

    def _note(self, event: Any) -> None:
        self.events.append(event)
        self.rows.append(jobs(self._connection))

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def only(self, kind: type) -> Any:
        [event] = [event for event in self.events if type(event) is kind]
        return event

    def rows_at(self, kind: type) -> list[Any]:
        [rows] = [rows for event, rows in zip(self.events, self.rows, strict=True) if type(event) is kind]
        return rows


@pytest.fixture
def seen(connection: psycopg.Connection) -> Seen:
    return Seen(connection)


def ending(app: App, error: BaseException | None = None, **options: Any) -> list[int]:
    """Define a task, `end`, that raises this if anything; the list grows with each call."""
    calls: list[int] = []

    @app.task(**options)
    async def end() -> None:
        calls.append(1)
        if error is not None:
            raise error

    return calls


async def test_a_job_that_is_done_is_told_step_by_step(app: App, client: Client, seen: Seen) -> None:
    ending(app)
    worker = worker_of(app, hooks=seen.hooks, extensions={"name": "value"})
    added = await client.add_raw_job("end", {})
    await worker.run_once()

    assert seen.names == [
        "WorkerInit", "WorkerStart", "JobFetch", "BeforeJobRun", "JobStart", "AfterJobRun", "JobComplete",
        "WorkerShutdown",
    ]  # fmt: skip
    init, start, fetch, before, begin, after, complete, shutdown = seen.events
    assert (init.schema, init.concurrency) == ("graphile_worker", 4)
    assert (start.worker_id, start.extensions) == (worker.worker_id, {"name": "value"})
    assert (fetch.job.id, fetch.job.attempts, fetch.job.locked_by) == (added.id, 1, worker.worker_id)
    assert (before.job.id, before.payload, begin.job.id) == (added.id, {}, added.id)
    assert (after.error, after.duration >= timedelta()) == (None, True)
    assert (complete.job.id, complete.worker_id) == (added.id, worker.worker_id)
    assert timedelta() <= complete.duration < timedelta(minutes=5)
    assert shutdown.reason is ShutdownReason.GRACEFUL


async def test_the_duration_that_is_told_is_that_of_the_handler(app: App, client: Client, seen: Seen) -> None:
    @app.task
    async def end() -> None:
        await asyncio.sleep(0.05)

    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    assert seen.only(AfterJobRun).duration >= timedelta(milliseconds=49)
    assert seen.only(JobComplete).duration >= timedelta(milliseconds=49)


async def test_completion_is_told_after_the_row_is_gone(app: App, client: Client, seen: Seen) -> None:
    ending(app)
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    assert [row.attempts for row in seen.rows_at(AfterJobRun)] == [1]
    assert seen.rows_at(JobComplete) == []


async def test_a_failure_is_told_after_it_was_written(app: App, client: Client, seen: Seen) -> None:
    ending(app, ValueError("no such address"))
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    told = seen.only(JobFail)
    assert told.error.startswith("ValueError: no such address")
    assert told.will_retry
    [row] = seen.rows_at(JobFail)
    assert (row.locked_at, row.last_error) == (None, told.error)
    assert seen.only(AfterJobRun).error == told.error
    assert "JobComplete" not in seen.names


@pytest.mark.parametrize("error", [ValueError("x"), Fail("x")], ids=["last attempt", "Fail"])
async def test_the_last_failure_is_told_as_permanent(app: App, client: Client, seen: Seen, error: Exception) -> None:
    ending(app, error)
    await client.add_raw_job("end", spec=JobSpec(max_attempts=1 if isinstance(error, ValueError) else 5))
    await run_all(app, hooks=seen.hooks)

    assert seen.only(JobPermanentlyFail).error.startswith(type(error).__name__)
    assert "JobFail" not in seen.names


async def test_a_job_that_lost_its_key_while_failing_is_told_as_permanent(app: App, client: Client, seen: Seen) -> None:
    @app.task
    async def end() -> None:
        await client.remove_job("mine")
        raise ValueError("too late")

    await client.add_raw_job("end", spec=JobSpec(job_key="mine"))
    await run_all(app, hooks=seen.hooks)

    assert seen.only(JobPermanentlyFail).error.startswith("ValueError: too late")
    assert "JobFail" not in seen.names


async def test_snoozing_is_no_failure(app: App, client: Client, seen: Seen) -> None:
    ending(app, Snooze(timedelta(hours=1)))
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    assert not {"JobFail", "JobPermanentlyFail", "JobComplete"} & {*seen.names}


async def test_before_a_run_skip_completes_the_job_unrun(app: App, client: Client, seen: Seen, connection) -> None:
    calls = ending(app)
    seen.hooks.on(BeforeJobRun, lambda event: Skip())
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    assert (calls, jobs(connection)) == ([], [])
    assert "JobStart" not in seen.names
    assert seen.only(JobComplete).duration == timedelta()


@pytest.mark.parametrize(
    "answer", [lambda event: Reject("not \0 today"), lambda event: 1 / 0], ids=["Reject", "an error"]
)
async def test_before_a_run_fail_uses_the_attempt(
    app: App, client: Client, seen: Seen, connection: psycopg.Connection, answer: Any
) -> None:
    calls = ending(app)
    seen.hooks.on(BeforeJobRun, answer)
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    job = only_job(connection)
    assert (calls, job.attempts, job.locked_at) == ([], 1, None)
    assert seen.only(JobFail).error == job.last_error
    assert "JobStart" not in seen.names


async def test_after_a_run_skip_makes_a_success_of_a_failure(app: App, client: Client, seen: Seen, connection) -> None:
    ending(app, ValueError("never mind"))
    seen.hooks.on(AfterJobRun, lambda event: Skip())
    await client.add_raw_job("end")
    await run_all(app, hooks=seen.hooks)

    assert jobs(connection) == []
    assert seen.only(JobComplete)


async def test_after_a_run_fail_makes_a_failure_of_a_success(app: App, client: Client, seen: Seen, connection) -> None:
    ending(app)
    seen.hooks.on(AfterJobRun, lambda event: Reject("the result is wrong"))
    await client.add_raw_job("end", spec=JobSpec(max_attempts=1))
    await run_all(app, hooks=seen.hooks)

    job = only_job(connection)
    assert (job.attempts, job.last_error) == (1, "the result is wrong")
    assert seen.only(JobPermanentlyFail).error == "the result is wrong"


async def test_a_failing_hook_hurts_neither_job_nor_worker(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    calls = ending(app)
    hooks = HookRegistry()

    def break_down(event: Any) -> None:
        raise SystemExit(type(event).__name__)

    for event in (WorkerInit, WorkerStart, JobFetch, JobStart, AfterJobRun, JobComplete, WorkerShutdown):
        hooks.on(event, break_down)
    await client.add_raw_job("end")
    await run_all(app, hooks=hooks)

    assert (calls, jobs(connection)) == ([1], [])
    assert any("JobComplete" in record.hook for record in logged(caplog, "hook_failed"))


async def test_a_slow_hook_does_not_keep_run_once_from_returning(app: App, client: Client) -> None:
    ending(app)
    hooks = HookRegistry()

    @hooks.on(JobComplete)
    async def dawdle(event: JobComplete) -> None:
        await asyncio.sleep(0.1)

    await client.add_raw_job("end")
    await asyncio.wait_for(run_all(app, hooks=hooks), 60)


async def test_each_attempt_is_told_anew(app: App, client: Client, seen: Seen, connection: psycopg.Connection) -> None:
    ending(app, ValueError("x"))
    await client.add_raw_job("end", spec=JobSpec(max_attempts=2))
    await run_all(app, hooks=seen.hooks)
    due_now(connection)
    await run_all(app, hooks=seen.hooks)

    fetched = [event.job.attempts for event in seen.events if isinstance(event, JobFetch)]
    assert fetched == [1, 2]
    assert [name for name in seen.names if "Fail" in name] == ["JobFail", "JobPermanentlyFail"]


async def test_an_interrupted_job_is_told_after_it_went_back(app: App, client: Client, seen: Seen) -> None:
    @app.task
    async def wait() -> None:
        await asyncio.Event().wait()

    await client.add_raw_job("wait")
    async with running(worker_of(app, hooks=seen.hooks, shutdown={"grace_period": timedelta()})):
        await until(lambda: "JobStart" in seen.names, "the job runs")

    assert seen.only(JobInterrupted).reason is FailureReason.SHUTDOWN_ABORTED
    assert [(row.locked_at, row.attempts) for row in seen.rows_at(JobInterrupted)] == [(None, 0)]
    assert not {"JobFail", "AfterJobRun", "JobComplete"} & {*seen.names}
    assert seen.names[-1] == "WorkerShutdown"


async def test_a_hook_that_is_registered_while_the_worker_runs_is_told_of_the_next_job(
    app: App, client: Client
) -> None:
    hooks = HookRegistry()
    events: list[object] = []

    @app.task
    async def note() -> None: ...

    hooks.on(JobComplete, events.append)
    async with running(worker_of(app, hooks=hooks)):
        await client.add_job(note.job())
        await until(lambda: len(events) == 1, "the first job is done")
        hooks.on(JobStart, events.append)
        await client.add_job(note.job())
        await until(lambda: len(events) == 3, "the second job is done")
    assert [type(event) for event in events] == [JobComplete, JobStart, JobComplete]
