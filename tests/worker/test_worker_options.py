"""Options that cannot work are refused before anything runs."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import (
    App,
    BeforeJobSchedule,
    Client,
    Continue,
    HookRegistry,
    JobSpec,
    SyncClient,
    Worker,
    WorkerOptions,
    WorkerShutdownConfig,
)
from ferryman.errors import ConfigurationError, FerrymanError
from ferryman.worker.option_names import OTHER_NAMES
from tests.support.workers import jobs, run_all

if TYPE_CHECKING:
    import psycopg


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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("worker_recovery", "here it is recovery="),
        ("withCron", "here it is crontabs="),
        ("database_url", r"here it is App\(database_url\)"),
        ("pollInterval", r"did you mean 'poll_interval'\?"),
        ("concurency", r"did you mean 'concurrency'\?"),
        ("xyz", "there are: concurrency, poll_interval, "),
    ],
)
def test_an_option_that_is_called_otherwise_elsewhere_is_refused_with_its_name_here(name: str, hint: str) -> None:
    app = App("postgresql://")
    for make in (WorkerOptions, functools.partial(Worker, app), functools.partial(Worker, app, WorkerOptions())):
        with pytest.raises(ConfigurationError, match=f"no worker option '{name}'; {hint}"):
            make(**{name: 1})


def test_every_name_that_stands_for_one_from_elsewhere_is_an_option() -> None:
    ours = {hint.removesuffix("=") for hint in OTHER_NAMES.values() if hint.endswith("=")}

    assert ours <= inspect.signature(WorkerOptions).parameters.keys()
    assert OTHER_NAMES.keys().isdisjoint(inspect.signature(WorkerOptions).parameters)


async def test_the_client_of_a_worker_has_its_hooks_and_its_clock(app: App, connection: psycopg.Connection) -> None:
    hooks = HookRegistry()
    hooks.on(BeforeJobSchedule, lambda event: Continue("changed"))
    worker = Worker(app, hooks=hooks, use_local_time=True)

    async with worker.create_utils() as client:
        job = await client.add_raw_job("x", "as it was")

    assert (client.use_local_time, {*client.tasks}) == (True, {*app.tasks})
    assert (job.payload, [each.id for each in jobs(connection)]) == ("changed", [job.id])
    assert job.run_at != job.created_at


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_a_method_that_is_an_argument_here_is_refused_with_a_hint(kind: type[Client | SyncClient]) -> None:
    client = kind("postgresql://")

    with pytest.raises(AttributeError, match=r"no attribute 'with_hooks'\. Give the hooks to the constructor"):
        client.with_hooks(HookRegistry())  # type: ignore[union-attr]
    with pytest.raises(AttributeError, match=r"^'(Sync)?Client' object has no attribute 'nothing'$"):
        client.nothing  # type: ignore[union-attr]  # noqa: B018 - looking is the test


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
    monkeypatch.setattr("ferryman.worker.claiming.claimer.datetime", AnHourAhead)

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
