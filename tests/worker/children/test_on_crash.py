"""What becomes of a job whose child process died, and where its log goes: with a real worker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.rows import namedtuple_row

from ferryman import App, JobSpec, WorkerRecoveryConfig
from ferryman.hooks import HookRegistry, JobFail, JobPermanentlyFail
from tests.support.workers import due_now, jobs, only_job, run_all
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


TO_TASK = """
    update graphile_worker._private_jobs
    set task_id = (select id from graphile_worker._private_tasks where identifier = %s) where id = %s
"""


def crashes(connection: psycopg.Connection) -> list[Any]:
    """What was written down of crashes."""
    rows = connection.cursor(row_factory=namedtuple_row).execute(
        "select * from graphile_worker._ferryman_crashes order by id"
    )
    return rows.fetchall()


async def outcome(
    app: App, client: Client, connection: psycopg.Connection, task: str | None, **given: Any
) -> tuple[Any, str]:
    """The job of a task after its first attempt, or that of before after its next, and what hooks were told of it."""
    told: list[str] = []
    hooks = HookRegistry()
    for kind in (JobFail, JobPermanentlyFail):
        hooks.on(kind, lambda event: told.append(type(event).__name__))
    if task is not None:
        await client.add_raw_job(task, {})
    await run_all(app, hooks=hooks, **given)
    [event] = told
    return only_job(connection), event


@pytest.mark.parametrize("task", ["die", "die_and_come_back"])
async def test_the_death_of_a_child_is_a_failed_attempt(
    app: App, client: Client, connection: psycopg.Connection, task: str
) -> None:
    job, event = await outcome(app, client, connection, task)
    assert job.last_error.startswith(f"WorkerCrashed: the process that ran job {job.id} ('{task}') ended itself")
    assert (job.attempts, job.locked_by, event) == (1, None, "JobFail")
    assert job.due_in > 0
    [crash] = crashes(connection)
    assert (crash.job_id, crash.started, crash.decision) == (job.id, True, "retry")
    assert (crash.attempt, crash.reason, crash.worker_id) == (1, "child process died", crash.recovered_by)


@pytest.mark.parametrize(("limit", "decisions"), [(2, ["retry", "poisoned"]), (None, ["retry"] * 4)])
async def test_a_job_whose_child_dies_again_and_again_fails_for_good_at_its_last_allowed_crash(
    app: App, client: Client, connection: psycopg.Connection, limit: int | None, decisions: list[str]
) -> None:
    recovery = WorkerRecoveryConfig(max_crashes=limit)
    job, event = await outcome(app, client, connection, "die", recovery=recovery)
    while len(crashes(connection)) < len(decisions):
        assert (job.attempts < job.max_attempts, event, [*job.flags]) == (True, "JobFail", ["ferryman:crashed"])
        due_now(connection)
        job, event = await outcome(app, client, connection, None, recovery=recovery)
    assert [crash.decision for crash in crashes(connection)] == decisions
    if limit is not None:
        assert (job.attempts, job.flags, event) == (job.max_attempts, None, "JobPermanentlyFail")
        assert "At 2 or more crashes within 72 h a job fails for good." in job.last_error
        assert f"`ferryman jobs retry {job.id}`" in job.last_error


async def test_an_ordinary_end_between_two_crashes_lets_them_count_no_longer(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    recovery = WorkerRecoveryConfig(max_crashes=2)
    job, _ = await outcome(app, client, connection, "die", recovery=recovery)
    connection.execute(TO_TASK, ("break_down", job.id))
    due_now(connection)
    job, _ = await outcome(app, client, connection, None, recovery=recovery)
    assert (job.flags, job.attempts) == (None, 2)
    connection.execute(TO_TASK, ("die", job.id))
    due_now(connection)
    job, event = await outcome(app, client, connection, None, recovery=recovery)
    assert (job.attempts, event) == (3, "JobFail")


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


async def test_a_job_whose_child_dies_on_its_last_attempt_carries_no_crash_on(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("die", {}, JobSpec(max_attempts=1))
    job, event = await outcome(app, client, connection, None)
    assert (event, job.flags) == ("JobPermanentlyFail", None)


async def test_a_job_that_fails_for_good_because_of_its_child_says_when(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("die", {})
    connection.execute("update graphile_worker._private_jobs set updated_at = now() - interval '3 days'")
    await outcome(app, client, connection, None, recovery=WorkerRecoveryConfig(max_crashes=1))
    [(is_recent,)] = connection.execute(
        "select updated_at > now() - interval '1 day' from graphile_worker._private_jobs"
    ).fetchall()
    assert is_recent
