"""What becomes of a job that was running: requeue, retry, fail, and the end of a poison loop."""

from __future__ import annotations

from datetime import timedelta
from math import exp
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ferryman import App
from ferryman.database.sessions import AsyncSession
from ferryman.errors import TaskError
from ferryman.recovery.policies import must_be_marked, store_policies
from ferryman.retries import CustomDelay, FixedDelay, LinearDelay
from tests.support.sweeps import sweep_as_worker

if TYPE_CHECKING:
    from ferryman import Client
    from tests.support.tables import Tables

RECOVERED = "Job recovered after worker interruption"


async def test_without_a_policy_the_attempt_is_given_back(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]
    assert (tables.job(job_id)["attempts"], tables.job(job_id)["last_error"]) == (0, RECOVERED)


async def test_retry_uses_the_attempt_up_and_waits_as_graphile_does(tables: Tables, sweeper: Client) -> None:
    tables.policy("retry")
    job_id = tables.held_job(tables.worker())
    tables.set(job_id, attempts=2)
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [recovery.decision for recovery in result.recoveries] == ["retry"]
    assert (job["attempts"], job["is_available"]) == (2, True)
    assert job["last_error"] == "WorkerCrashed: worker dead gave no sign of life any more while it held this job"
    assert (job["run_at"] - job["updated_at"]).total_seconds() == pytest.approx(exp(2), abs=1e-3)


async def test_a_retry_without_attempts_left_is_a_failure_for_good(tables: Tables, sweeper: Client) -> None:
    tables.policy("retry")
    job_id = tables.held_job(tables.worker(), max_attempts=1)
    await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert (job["attempts"], job["is_available"], job["locked_by"]) == (1, False, None)
    assert job["last_error"].startswith("WorkerCrashed: ")


async def test_fail_lets_the_job_fail_for_good(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    job_id = tables.held_job(tables.worker())
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [recovery.decision for recovery in result.recoveries] == ["fail"]
    assert (job["attempts"], job["max_attempts"], job["locked_by"]) == (25, 25, None)
    assert job["last_error"].startswith("WorkerCrashed: ")


async def test_the_config_decides_for_tasks_that_do_not(tables: Tables, sweeper: Client) -> None:
    tables.policy("requeue", "careless")
    job_id, other = tables.held_job(tables.worker()), tables.held_job(identifier="careless")
    await sweep_as_worker(sweeper, config={"on_crash": "fail"})
    assert (tables.job(job_id)["attempts"], tables.job(other)["attempts"]) == (25, 0)


async def test_each_recovery_is_written_down(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail", "payment")
    job_id = tables.held_job(tables.worker(), identifier="payment")
    await sweep_as_worker(sweeper)
    (crash,) = tables.crashes()
    del crash["id"], crash["noticed_at"]
    assert crash == {
        "job_id": job_id,
        "task_identifier": "payment",
        "worker_id": "dead",
        "recovered_by": "sweeper",
        "attempt": 1,
        "started": True,
        "decision": "fail",
        "reason": "silent",
    }
    (told,) = await sweeper.list_crashes(job_id)
    assert (told.worker_id, told.recovered_by, told.started, told.decision) == ("dead", "sweeper", True, "fail")


async def test_a_swept_worker_is_remembered(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("dead", "1 hour", host="h"))
    tables.held_job("dead")
    await sweep_as_worker(sweeper)
    (lost,) = await sweeper.list_lost_workers()
    assert (lost.worker_id, lost.reason, lost.recovered_jobs, lost.metadata) == (
        "dead",
        "silent",
        2,
        {"host": "h", "beat_interval": 0},
    )
    assert lost.last_heartbeat_at is not None
    assert lost.noticed_at - lost.last_heartbeat_at > timedelta(minutes=59)


async def test_an_id_that_is_swept_twice_is_remembered_once_with_all_its_jobs(tables: Tables, sweeper: Client) -> None:
    for _ in range(2):
        tables.held_job(tables.worker())
        await sweep_as_worker(sweeper)
    (lost,) = await sweeper.list_lost_workers()
    assert lost.recovered_jobs == 2


async def test_the_third_crash_fails_a_job_for_good_and_names_them_all(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    tables.crashed_before(job_id, worker="first", age="2 hours")
    tables.crashed_before(job_id, worker="second")
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]
    assert (job["attempts"], job["is_available"]) == (25, False)
    assert job["last_error"].startswith(
        "WorkerCrashed: 3 workers died within 72 h while they held this job (first at 2"
    )
    assert ", second at 2" in job["last_error"]
    assert ", dead just now), so it does not run again." in job["last_error"]


async def test_a_job_that_kills_every_worker_ends_after_three(tables: Tables, sweeper: Client) -> None:
    job_id = tables.add_job()["id"]
    decisions = []
    for number in range(3):
        tables.claim(job_id, tables.worker(f"worker {number}"))
        result = await sweep_as_worker(sweeper)
        decisions += [recovery.decision for recovery in result.recoveries]
    assert decisions == ["requeue", "requeue", "poisoned"]
    assert not tables.job(job_id)["is_available"]


async def test_crashes_outside_the_window_do_not_count(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    for _ in range(5):
        tables.crashed_before(job_id, age="73 hours")
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]


async def test_retries_after_crashes_end_with_the_third_too(tables: Tables, sweeper: Client) -> None:
    tables.policy("retry")
    job_id = tables.held_job(tables.worker())
    tables.crashed_before(job_id)
    tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]


async def test_a_poisoned_job_that_somebody_lets_run_again_starts_with_a_clean_record(
    tables: Tables, sweeper: Client
) -> None:
    job_id = tables.held_job(tables.worker())
    tables.crashed_before(job_id)
    tables.crashed_before(job_id)
    await sweep_as_worker(sweeper)
    tables.reschedule_jobs(job_id, attempts=0)
    tables.claim(job_id, tables.worker("later"))
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]


async def test_bystanders_never_add_up_to_a_poisonous_job(tables: Tables, sweeper: Client) -> None:
    """Crashes of which nobody knows whether they hit the job count only beside those that did."""
    job_id = tables.held_job(tables.worker())
    for _ in range(3):
        tables.crashed_before(job_id, started=None)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]
    tables.claim(job_id, tables.worker("second"))
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]


async def test_the_number_of_crashes_can_be_chosen(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker())
    result = await sweep_as_worker(sweeper, config={"max_crashes": 1})
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]


async def test_a_job_that_was_replaced_while_it_ran_stays_replaced(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), job_key="k", age="1 minute")
    tables.add_job(job_key="k")
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [recovery.decision for recovery in result.recoveries] == ["superseded"]
    assert (job["locked_by"], job["is_available"]) == (None, False)


async def test_a_superseded_job_whose_worker_died_says_why_it_does_not_run(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), job_key="k")
    tables.add_job(job_key="k")
    await sweep_as_worker(sweeper)
    assert tables.job(job_id)["last_error"] == "Superseded: its key was used again while it was claimed"


async def test_tasks_store_their_policies_and_only_changes_are_written(tables: Tables, sweeper: Client) -> None:
    app = App("postgresql://unused")

    @app.task
    def plain() -> None: ...

    @app.task(on_crash="fail")
    def careful() -> None: ...

    @app.task(on_crash="retry", retry=LinearDelay(10, most_seconds=60))
    def linear() -> None: ...

    async def store() -> tuple[str, ...]:
        session = AsyncSession(lambda: sweeper.pool, sweeper.schema)
        return await session.run(store_policies(app.tasks.values()))

    assert set(await store()) == {"careful", "linear"}
    assert await store() == ()
    stored = tables.query("select * from graphile_worker._ferryman_task_policies order by task_identifier")
    assert [(row["task_identifier"], row["on_crash"], row["retry_step_seconds"]) for row in stored] == [
        ("careful", "fail", None),
        ("linear", "retry", 10),
    ]
    tables.query("update graphile_worker._ferryman_task_policies set on_crash = 'requeue'")
    assert set(await store()) == {"careful", "linear"}


async def test_a_policy_that_a_task_no_longer_has_is_taken_back(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail", "plain")
    app = App("postgresql://unused")

    @app.task
    def plain() -> None: ...

    session = AsyncSession(lambda: sweeper.pool, sweeper.schema)
    assert await session.run(store_policies(app.tasks.values())) == ("plain",)
    job_id = tables.held_job(tables.worker(), identifier="plain")
    await sweep_as_worker(sweeper)
    assert tables.job(job_id)["attempts"] == 0


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (FixedDelay(40), 40),
        (LinearDelay(10), 30),
        (LinearDelay(10, most_seconds=25), 25),
        (CustomDelay(lambda _attempts, _error: timedelta(days=1)), exp(3)),
    ],
)
async def test_a_retry_after_a_crash_waits_as_the_task_says_if_that_can_be_stored(
    tables: Tables, sweeper: Client, policy: FixedDelay, seconds: float
) -> None:
    app = App("postgresql://unused")

    @app.task(on_crash="retry", retry=policy)
    def task() -> None: ...

    await AsyncSession(lambda: sweeper.pool, sweeper.schema).run(store_policies(app.tasks.values()))
    job_id = tables.held_job(tables.worker())
    tables.set(job_id, attempts=3)
    await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert (job["run_at"] - job["updated_at"]).total_seconds() == pytest.approx(seconds, abs=1e-3)


def test_a_policy_that_does_not_exist_is_refused_where_the_task_is_defined() -> None:
    app = App("postgresql://unused")
    with pytest.raises(TaskError, match="on_crash must be one of 'requeue', 'retry', 'fail'; got 'explode'"):

        @app.task(on_crash="explode")  # type: ignore[call-overload]
        def task() -> None: ...


def test_only_starts_that_matter_need_a_mark() -> None:
    assert not must_be_marked(None, "requeue", None)
    assert not must_be_marked("requeue", "fail", "ValueError: no")
    assert must_be_marked(None, "requeue", RECOVERED)
    assert must_be_marked("fail", "requeue", None)
    assert must_be_marked(None, "retry", None)


def test_a_task_says_how_many_crashes_its_jobs_may_have() -> None:
    app = App("postgresql://nowhere")

    @app.task
    async def usual() -> None: ...

    @app.task(max_crashes=10)
    async def evicted() -> None: ...

    @app.task(max_crashes=None)
    async def resilient() -> None: ...

    chosen = [task.running.max_crashes for task in (usual, evicted, resilient)]
    assert chosen == [msgspec.UNSET, 10, None]


@pytest.mark.parametrize("wrong", [0, 1001, 1.5, True, "3"])
def test_a_number_of_crashes_that_cannot_be_meant_is_refused(wrong: Any) -> None:
    app = App("postgresql://nowhere")
    with pytest.raises(TaskError, match="max_crashes must be a whole number from 1 to 1,000, or None; got "):

        @app.task(max_crashes=wrong)
        async def task() -> None: ...


async def test_without_a_limit_no_number_of_crashes_fails_a_job(tables: Tables, sweeper: Client) -> None:
    job = tables.held_job(tables.worker())
    for _ in range(5):
        tables.crashed_before(job)
    result = await sweep_as_worker(sweeper, config={"max_crashes": None})
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]
