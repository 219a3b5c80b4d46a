"""What becomes of a job whose child process died, and where its log goes: with a real worker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, WorkerRecoveryConfig
from ferryman.hooks import HookRegistry, JobFail, JobPermanentlyFail
from tests.support.workers import jobs, only_job, run_all
from tests.worker import process_tasks
from tests.worker.children import dies_in_children

if TYPE_CHECKING:
    import psycopg

    from ferryman import Client


@pytest.fixture
def app(database: str) -> App:
    made = App(database)
    made.include(process_tasks.app)
    made.include(dies_in_children.app)
    return made


async def outcome(app: App, client: Client, connection: psycopg.Connection, task: str, **given: Any) -> tuple[Any, str]:
    """The job of a task after its first attempt, and what hooks were told of it."""
    told: list[str] = []
    hooks = HookRegistry()
    for kind in (JobFail, JobPermanentlyFail):
        hooks.on(kind, lambda event: told.append(type(event).__name__))
    await client.add_raw_job(task, {})
    await run_all(app, hooks=hooks, **given)
    [event] = told
    assert connection.execute("select from graphile_worker._ferryman_crashes").fetchall() == []
    return only_job(connection), event


@pytest.mark.parametrize("task", ["die", "die_and_come_back"])
async def test_the_death_of_a_child_is_a_failed_attempt(
    app: App, client: Client, connection: psycopg.Connection, task: str
) -> None:
    job, event = await outcome(app, client, connection, task)
    assert job.last_error.startswith(f"WorkerCrashed: the process that ran job {job.id} ('{task}') ended itself")
    assert (job.attempts, job.locked_by, event) == (1, None, "JobFail")
    assert job.due_in > 0


async def test_a_task_that_must_not_be_repeated_fails_for_good_when_its_child_dies(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job, event = await outcome(app, client, connection, "die_once")
    assert job.last_error.startswith(f"WorkerCrashed: the process that ran job {job.id} ('die_once') ended itself")
    assert (job.attempts, job.locked_by, event) == (job.max_attempts, None, "JobPermanentlyFail")


async def test_a_worker_may_say_so_for_all_of_its_tasks(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job, event = await outcome(app, client, connection, "die", recovery=WorkerRecoveryConfig(on_crash="fail"))
    assert (job.attempts, event) == (job.max_attempts, "JobPermanentlyFail")


async def test_a_task_that_had_not_begun_may_be_tried_again_whatever_its_policy(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job, event = await outcome(app, client, connection, "never_imported")
    assert job.last_error.startswith(f"WorkerCrashed: the process that was about to run job {job.id}")
    assert (job.attempts, event) == (1, "JobFail")


async def test_what_a_task_logs_in_a_child_names_its_job(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    job = await client.add_job(process_tasks.log.job())
    await run_all(app)
    assert jobs(connection) == []
    [record] = [record for record in caplog.records if record.name == "ferryman.task"]
    fields = vars(record)
    assert record.getMessage() == "half of it"
    assert (fields["job_id"], fields["task"], fields["attempt"]) == (job.id, "log", 1)
    assert fields["worker_id"].startswith("ferryman")
