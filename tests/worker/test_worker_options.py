"""Options that cannot work are refused before anything runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, JobSpec, Worker, WorkerOptions, WorkerShutdownConfig
from ferryman.errors import ConfigurationError, FerrymanError
from tests.support.workers import jobs, run_all

if TYPE_CHECKING:
    from ferryman import Client


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"concurrency": 0}, "concurrency must be greater than 0"),
        ({"max_connections": 0}, "max_connections must be at least 1"),
        ({"poll_interval": timedelta()}, "poll_interval must be at least"),
        ({"complete_job_batch_delay": timedelta(seconds=-1)}, "complete_job_batch_delay"),
        ({"shutdown": WorkerShutdownConfig(grace_period=timedelta(seconds=-1))}, "grace_period"),
    ],
)
def test_options_that_cannot_work_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        WorkerOptions(**given)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"concurrency.*max_connections"):
        WorkerOptions(concurrency=0, max_connections=0)


def test_options_are_given_as_an_object_as_keywords_or_both() -> None:
    worker = Worker(App("postgresql://"), WorkerOptions(concurrency=3), max_connections=2)

    assert (worker._options.concurrency, worker._options.max_connections) == (3, 2)


async def test_a_task_that_no_child_process_could_find_is_refused_at_the_start(app: App, database: str) -> None:
    @app.task(run_in="process")
    def hidden() -> None:
        pass

    with pytest.raises(FerrymanError, match="hidden"):
        await run_all(app)


async def test_one_connection_is_enough(app: App, client: Client, connection) -> None:
    @app.task(queue_name="letters")
    async def end() -> None:
        pass

    for _ in range(10):
        await client.add_job(end.job(), JobSpec(queue_name="letters"))
    await run_all(app, max_connections=1)

    assert jobs(connection) == []


async def test_the_local_clock_decides_what_is_due_when_asked_to(
    app: App, client: Client, connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AnHourAhead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=1)

    @app.task
    async def end() -> None:
        pass

    await client.add_job(end.job(), JobSpec(run_at=datetime.now(UTC) + timedelta(minutes=30)))
    monkeypatch.setattr("ferryman.worker.claimer.datetime", AnHourAhead)

    await run_all(app, use_local_time=False)
    assert len(jobs(connection)) == 1
    await run_all(app, use_local_time=True)
    assert jobs(connection) == []


def test_single_settings_of_the_shutdown_can_be_given_for_short() -> None:
    options = WorkerOptions(
        listen_os_shutdown_signals=False,
        shutdown_grace_period=timedelta(seconds=9),
        shutdown_interrupted_job_retry_delay=timedelta(seconds=8),
    )

    assert options.shutdown == WorkerShutdownConfig(
        listen_os_shutdown_signals=False,
        grace_period=timedelta(seconds=9),
        interrupted_job_retry_delay=timedelta(seconds=8),
    )
    assert replace(options, concurrency=3).shutdown == options.shutdown
