"""The crash policies of a running job: requeue, retry, fail, and the end of a poison loop."""

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
from tests.support.tables import OURS

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
    assert job["last_error"] == "WorkerCrashed: worker dead sent no heartbeat while it held this job"
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
    job_id = tables.held_job(tables.worker(**OURS), identifier="payment")
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
    assert (lost.worker_id, lost.reason, lost.recovered_jobs) == ("dead", "silent", 2)
    assert lost.metadata == {"host": "h", "beat_interval": 0}
    assert lost.last_heartbeat_at is not None
    assert lost.noticed_at - lost.last_heartbeat_at > timedelta(minutes=59)


async def test_an_id_that_is_swept_twice_is_remembered_once_with_all_its_jobs(tables: Tables, sweeper: Client) -> None:
    for _ in range(2):
        tables.held_job(tables.worker())
        await sweep_as_worker(sweeper)
    (lost,) = await sweeper.list_lost_workers()
    assert lost.recovered_jobs == 2


async def test_the_third_crash_fails_a_job_for_good_and_names_them_all(tables: Tables, sweeper: Client) -> None:
    job_id = held_alone(tables)
    tables.crashed_before(job_id, worker="first", age="2 hours")
    tables.crashed_before(job_id, worker="second")
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]
    assert (job["attempts"], job["is_available"], job["flags"]) == (25, False, None)
    assert job["last_error"].startswith("WorkerCrashed: the process of this job died 3 times within 72 h (first at 2")
    assert ", second at 2" in job["last_error"]
    assert ", dead just now, while it ran alone), so the job failed for good." in job["last_error"]
    assert f"`ferryman jobs retry {job['id']}`" in job["last_error"]


async def test_a_job_that_kills_every_worker_ends_after_three(tables: Tables, sweeper: Client) -> None:
    job_id = tables.add_job(flags=["dear"])["id"]
    decisions, flags = [], []
    for number in range(3):
        tables.claim(job_id, tables.worker(f"worker {number}", **OURS))
        if number:
            tables.mark(job_id)
        result = await sweep_as_worker(sweeper)
        decisions += [recovery.decision for recovery in result.recoveries]
        flags.append(sorted(tables.job(job_id)["flags"]))
    assert decisions == ["requeue", "requeue", "poisoned"]
    crashed = ["dear", "ferryman:crashed", "ferryman:suspect"]
    assert flags == [crashed, sorted([*crashed, "ferryman:alone"]), ["dear"]]
    assert not tables.job(job_id)["is_available"]


async def test_beside_others_a_job_never_fails_however_many_workers_die(tables: Tables, sweeper: Client) -> None:
    """It becomes a suspect, then runs alone; only a crash while it ran alone can be its last."""
    job_id = tables.held_job(tables.worker(**OURS))
    tables.suspect(job_id)
    tables.mark(job_id)
    for _ in range(5):
        tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]
    assert "ferryman:alone" in tables.job(job_id)["flags"]


async def test_a_suspect_without_a_mark_never_started(tables: Tables, sweeper: Client) -> None:
    """Also in a worker that starts what it claims: a suspect may have to wait there."""
    tables.worker(**OURS)
    suspects = [tables.held_job() for _ in range(2)]
    for job_id, suspicion in zip(suspects, ("suspect", "alone"), strict=True):
        tables.suspect(job_id, suspicion)
    before = [tables.job(job_id)["flags"] for job_id in suspects]
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)] * 2
    assert [tables.job(job_id)["flags"] for job_id in suspects] == before


async def test_who_does_not_keep_suspects_apart_says_nothing_of_who_was_to_blame(
    tables: Tables, sweeper: Client
) -> None:
    """Such as a worker of an earlier version, which marks jobs that have crashed and runs several at once."""
    job_id = held_alone(tables, suspects=None)
    tables.crashed_before(job_id)
    tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]


async def test_a_job_that_replaces_a_suspect_by_its_key_is_none(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(**OURS), job_key="k")
    await sweep_as_worker(sweeper)
    assert "ferryman:suspect" in tables.job(job_id)["flags"]
    assert tables.add_job(job_key="k")["id"] == job_id
    assert tables.job(job_id)["flags"] is None


async def test_crashes_before_an_ordinary_end_do_not_count(tables: Tables, sweeper: Client) -> None:
    """The end removes the flag, and the next crash sets it anew."""
    job_id = held_alone(tables)
    tables.suspect(job_id, "alone", age="30 minutes")
    for _ in range(3):
        tables.crashed_before(job_id, age="1 hour")
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]


def held_alone(tables: Tables, **metadata: object) -> int:
    """A job that ran alone when its worker died."""
    job_id = tables.held_job(tables.worker(**{**OURS, **metadata}))
    tables.suspect(job_id, "alone")
    tables.mark(job_id)
    return job_id


async def test_crashes_outside_the_window_do_not_count(tables: Tables, sweeper: Client) -> None:
    job_id = held_alone(tables)
    tables.suspect(job_id, "alone", age="100 hours")
    for _ in range(5):
        tables.crashed_before(job_id, age="73 hours")
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]


async def test_retries_after_crashes_end_with_the_third_too(tables: Tables, sweeper: Client) -> None:
    tables.policy("retry")
    job_id = held_alone(tables)
    tables.crashed_before(job_id)
    tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]


async def test_a_poisoned_job_that_somebody_lets_run_again_starts_with_a_clean_record(
    tables: Tables, sweeper: Client
) -> None:
    job_id = held_alone(tables)
    tables.crashed_before(job_id)
    tables.crashed_before(job_id)
    assert [each.decision for each in (await sweep_as_worker(sweeper)).recoveries] == ["poisoned"]
    tables.reschedule_jobs(job_id, attempts=0)
    tables.claim(job_id, tables.worker("later", **OURS))
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == ["requeue"]
    assert "ferryman:alone" not in tables.job(job_id)["flags"]


async def test_jobs_of_which_nobody_knows_whether_they_ran_never_fail(tables: Tables, sweeper: Client) -> None:
    """A Rust worker's row does not say what it claims ahead."""
    job_ids = [tables.add_job()["id"] for _ in range(20)]
    for number in range(4):
        worker = tables.worker(f"rust {number}", pid=1)
        for job_id in job_ids:
            tables.claim(job_id, worker)
        result = await sweep_as_worker(sweeper)
        assert {(each.decision, each.started) for each in result.recoveries} == {("requeue", None)}
    assert {job["attempts"] for job in tables.jobs()} == {0}


async def test_the_number_of_crashes_can_be_chosen(tables: Tables, sweeper: Client) -> None:
    job_id = held_alone(tables)
    tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper, config={"max_crashes": 2})
    assert [recovery.decision for recovery in result.recoveries] == ["poisoned"]


@pytest.mark.parametrize(
    ("own", "task", "decision"), [(2, {}, "poisoned"), (None, {}, "requeue"), (2, {"max_crashes": None}, "requeue")]
)
async def test_a_job_may_crash_as_often_as_its_task_or_else_its_own_worker_says(
    tables: Tables, sweeper: Client, own: int | None, task: dict[str, None], decision: str
) -> None:
    job_id = held_alone(tables, max_crashes=own, policies={"task": task})
    for _ in range(1 if own == 2 else 50):
        tables.crashed_before(job_id)
    result = await sweep_as_worker(sweeper)
    assert [recovery.decision for recovery in result.recoveries] == [decision]
    if decision == "requeue":
        assert tables.job(job_id)["flags"] is None  # nothing could fail it, so it need not be kept apart


async def test_a_dead_worker_is_judged_by_its_own_policies_whoever_started_since(
    tables: Tables, sweeper: Client
) -> None:
    careful = tables.worker("careful", **OURS, on_crash="requeue", policies={"task": {"on_crash": "fail"}})
    careless = tables.worker("careless", **OURS, on_crash="requeue", policies={})
    again, once = tables.held_job(careless), tables.held_job(careful)
    tables.policy("fail")  # by a worker that started later
    result = await sweep_as_worker(sweeper, config={"on_crash": "fail"})
    assert {each.job_id: each.decision for each in result.recoveries} == {again: "requeue", once: "fail"}


async def test_a_start_mark_that_the_dead_worker_did_not_owe_is_not_missed(tables: Tables, sweeper: Client) -> None:
    """The task had no policy when the job started. A policy that was stored since proves nothing about the start."""
    job_id = tables.held_job(tables.worker(prefetches=True, suspects=True, on_crash="requeue", policies={}))
    tables.policy("fail")
    result = await sweep_as_worker(sweeper)
    assert [(each.job_id, each.decision, each.started) for each in result.recoveries] == [(job_id, "requeue", None)]


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
    assert tables.job(job_id)["last_error"] == "Superseded: its key was used again or removed while it was claimed"


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
    assert not must_be_marked(None, "requeue")
    assert not must_be_marked("requeue", "fail")
    assert must_be_marked("fail", "requeue")
    assert must_be_marked(None, "retry")


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
