"""What the log tells of each job, and of a worker's end."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import JobSpec, Snooze
from ferryman.hooks import HookRegistry, JobComplete
from ferryman.worker.settling.job_log import format_seconds, next_run
from tests.support.logs import logged
from tests.support.workers import run_all, running, worker_of

if TYPE_CHECKING:
    from ferryman import App, Client

LEVEL_OF = {True: logging.INFO, False: logging.DEBUG}


@pytest.mark.parametrize("log_jobs", [True, False])
async def test_a_job_that_completes_is_one_line_with_its_duration(
    app: App, client: Client, caplog: pytest.LogCaptureFixture, log_jobs: bool
) -> None:
    @app.task
    async def greet() -> None: ...

    @app.task
    async def later() -> None:
        raise Snooze(timedelta(hours=2))

    caplog.set_level(logging.DEBUG)
    greeting = await client.add_job(greet.job())
    snoozed = await client.add_job(later.job())
    await run_all(app, log_jobs=log_jobs)

    [line] = logged(caplog, "job_completed", job_id=greeting.id, task="greet", attempt=1)
    assert line.levelno == LEVEL_OF[log_jobs]
    assert line.getMessage() == f"job {greeting.id} (greet) completed in {format_seconds(line.seconds)}"
    [line] = logged(caplog, "job_snoozed", job_id=snoozed.id)
    assert line.levelno == LEVEL_OF[log_jobs]
    assert line.getMessage().endswith("(in 2 h)")


async def test_completed_jobs_are_not_even_looked_at_where_nobody_logs_them(
    app: App, client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def greet() -> None: ...

    hooks, told = HookRegistry(), list[JobComplete]()
    hooks.on(JobComplete, told.append)
    asked: list[object] = []
    monkeypatch.setattr("ferryman.worker.settling.job_log.JobLog.written", lambda *given: asked.append(given))
    caplog.set_level(logging.INFO)
    await client.add_job(greet.job())
    await run_all(app, hooks=hooks)

    assert (len(told), asked) == (1, [])


@pytest.mark.parametrize("log_jobs", [True, False])
async def test_a_failed_attempt_warns_with_the_time_of_the_next_and_the_last_one_is_an_error_with_its_traceback(
    app: App, client: Client, caplog: pytest.LogCaptureFixture, log_jobs: bool
) -> None:
    @app.task(retry=lambda _attempts, _error: timedelta(minutes=5))
    async def fetch() -> None:
        raise ValueError("no such page")

    await client.add_job(fetch.job())
    last = await client.add_job(fetch.job(), JobSpec(max_attempts=1))
    before = datetime.now(UTC)
    await run_all(app, log_jobs=log_jobs)

    [retried] = logged(caplog, "job_failed")
    assert retried.levelno == logging.WARNING
    assert before + timedelta(minutes=5) <= datetime.fromisoformat(retried.run_at) + timedelta(milliseconds=1)
    assert "(fetch) failed in attempt 1 of 25; the next attempt is at 20" in retried.getMessage()
    assert retried.getMessage().endswith("(in 5 min): ValueError: no such page")
    assert bool(retried.exc_text) == log_jobs
    [failed] = logged(caplog, "job_permanently_failed", job_id=last.id, attempt=1)
    assert failed.levelno == logging.ERROR
    assert failed.getMessage().endswith("(fetch) failed for good in attempt 1 of 1: ValueError: no such page")
    assert failed.exc_text.startswith(f'Traceback (most recent call last):\n  File "{__file__}"')


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_traceback_begins_with_the_handler_and_a_payload_that_does_not_fit_needs_none(
    app: App, client: Client, *, in_thread: bool
) -> None:
    def fail(times: int) -> None:
        raise ValueError(times)

    async def fail_on_the_loop(times: int) -> None:
        fail(times)

    app.task(fail if in_thread else fail_on_the_loop, identifier="fail")
    failed = await client.add_raw_job("fail", {"times": 3})
    misfit = await client.add_raw_job("fail", {"tims": 3})
    await run_all(app)

    handler = (
        rf'ValueError: 3\n\nTraceback \(most recent call last\):\n  File "{re.escape(__file__)}", line \d+, in fail'
    )
    assert re.match(handler, await _error_of(client, failed.id))
    said = await _error_of(client, misfit.id)
    assert said.startswith("InvalidPayloadError: task 'fail': ")
    assert "\n" not in said


async def _error_of(client: Client, job_id: int) -> str:
    job = await client.get_job(job_id)
    assert job is not None
    assert job.last_error is not None
    return job.last_error


async def test_each_step_of_a_shutdown_is_one_line(app: App, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    has_begun = asyncio.Event()

    @app.task
    async def crawl() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    caplog.set_level(logging.INFO)
    job = await client.add_job(crawl.job())
    worker = worker_of(app, shutdown={"grace_period": timedelta()}, fail_job_batch_delay=timedelta(hours=1))
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)

    ours: list[Any] = [record for record in caplog.records if hasattr(record, "event")]
    assert [record.event for record in ours] == [
        "worker_started", "worker_stopping", "jobs_cancelled", "outcomes_pending", "job_interrupted", "worker_stopped",
    ]  # fmt: skip
    assert [record.getMessage().partition(worker.worker_id)[2] for record in (ours[0], ours[1], ours[5])] == [
        " started with 1 task",
        " is stopping; waiting up to 0 s for 1 job to end",
        " stopped; its jobs: 0 completed, 0 failed, 1 given back",
    ]
    assert f"job {job.id} (crawl) was interrupted" in ours[4].getMessage()
    assert ours[4].getMessage().endswith("(in 30 s)")


def test_durations_are_told_for_people() -> None:
    told = [format_seconds(seconds) for seconds in (0.0004, 0.0123, 0.9996, 1.5, 59.96, 200, 7500, 7200, 259_200)]
    assert told == ["0.4 ms", "12 ms", "1 s", "1.5 s", "1 min", "3 min 20 s", "2 h 5 min", "2 h", "3 days"]


def test_a_job_that_waits_for_longer_than_there_are_dates_is_told_too() -> None:
    assert next_run(1e13) == ("in 115,740,741 days", {})
