"""Old records of recovery are deleted, each kind after its own retention."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.recovery import retention
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.retention import prune
from ferryman.recovery.sweep_results import Pruned
from ferryman.worker.claiming.claims import EPOCH, Claim
from ferryman.worker.duties import recovery_duty
from ferryman.worker.settling.outcomes import Failed, Settlement
from ferryman.worker.settling.writers import giving_back
from tests.support.fleet import idle_app
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.waiting import somebody_waits_for_a_lock, until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman import Client
    from ferryman.database.steps import Row, Steps
    from tests.support.tables import Tables

LOST = """
    insert into graphile_worker._ferryman_lost_workers (worker_id, noticed_at, reason)
    values (%s, now() - %s::interval, 'silent')
"""


STATE = """
    insert into graphile_worker._ferryman_worker_states (worker_id, taken_at, slots, running, done, failed)
    values ('worker', now() - %s::interval, 4, 1, 10, 2)
"""
ALL = ("heartbeat_retention", "worker_state_retention", "crash_retention", "terminal_record_retention")
PRUNED = {
    "heartbeat_retention": Pruned(lost_workers=1),
    "worker_state_retention": Pruned(worker_states=1),
    "crash_retention": Pruned(crashes=1),
    "terminal_record_retention": Pruned(failed_jobs=1),
}
KEPT = {
    "heartbeat_retention": "23 hours 59 minutes",
    "worker_state_retention": "6 days 23 hours",
    "crash_retention": "29 days 23 hours",
    "terminal_record_retention": "29 days 23 hours",
}
FORGOTTEN = {
    "heartbeat_retention": "24 hours 1 minute",
    "worker_state_retention": "7 days 1 minute",
    "crash_retention": "30 days 1 minute",
    "terminal_record_retention": "30 days 1 minute",
}


def fail_for_good(tables: Tables, age: str, task: str = "task", **named: Any) -> int:
    """A job whose row says that it ran out of attempts some time ago."""
    job_id = tables.add_job(task, max_attempts=1, **named)["id"]
    tables.query(
        "update graphile_worker._private_jobs set attempts = 1, updated_at = now() - %s::interval,"
        " run_at = now() - %s::interval, created_at = now() - interval '5 years' where id = %s",
        age,
        age,
        job_id,
    )
    return int(job_id)


def write_down(tables: Tables, setting: str, age: str) -> None:
    """A record of the kind that this setting is about."""
    match setting:
        case "heartbeat_retention":
            tables.query(LOST, f"lost {age} ago", age)
        case "worker_state_retention":
            tables.query(STATE, age)
        case "crash_retention":
            tables.crashed_before(1, age=age)
        case "terminal_record_retention":
            fail_for_good(tables, age)


@pytest.fixture(autouse=True)
def _registered(tables: Tables) -> None:
    tables.worker("ferryman-1", age="0 seconds", tasks=["task", "other"])


@pytest.mark.parametrize("setting", ALL)
async def test_each_kind_is_kept_for_its_own_time(tables: Tables, client: Client, setting: str) -> None:
    for age in (KEPT[setting], FORGOTTEN[setting]):
        write_down(tables, setting, age)
    assert await client.prune_recovery_records() == PRUNED[setting]
    assert await client.prune_recovery_records() == Pruned()
    assert await client.prune_recovery_records(WorkerRecoveryConfig(**{setting: timedelta(hours=1)})) == PRUNED[setting]


@pytest.mark.parametrize("setting", ALL)
async def test_each_kind_can_be_kept_for_ever(tables: Tables, client: Client, setting: str) -> None:
    for each in ALL:
        write_down(tables, each, "1000 days")
    expected = Pruned(lost_workers=1, worker_states=1, crashes=1, failed_jobs=1)
    for field in fields(PRUNED[setting]):
        if getattr(PRUNED[setting], field.name):
            expected = replace(expected, **{field.name: 0})
    assert await client.prune_recovery_records(WorkerRecoveryConfig(**{setting: None})) == expected


async def test_all_kinds_can_be_kept_for_ever(tables: Tables, client: Client) -> None:
    for each in ALL:
        write_down(tables, each, "1000 days")
    nothing = WorkerRecoveryConfig(**dict.fromkeys(ALL))
    assert await client.prune_recovery_records(nothing) == Pruned()


async def test_workers_forget_all_kinds(tables: Tables, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # Again and again: a worker that does not have the watch yet leaves it to others.
    for name in ("SECONDS_UNTIL_PRUNING", "SECONDS_BETWEEN_PRUNINGS"):
        monkeypatch.setattr(recovery_duty, name, 0.1)
    for each in ALL:
        write_down(tables, each, FORGOTTEN[each])

    def left() -> set[str]:
        rows = tables.query(
            "select 'lost worker' as kind from graphile_worker._ferryman_lost_workers"
            " union select 'state' from graphile_worker._ferryman_worker_states where worker_id = 'worker'"
            " union select 'crash' from graphile_worker._ferryman_crashes"
            " union select 'failed job' from graphile_worker._private_jobs"
        )
        return {row["kind"] for row in rows}

    assert left() == {"lost worker", "state", "crash", "failed job"}
    app = idle_app(client.address.conninfo)
    async with running(worker_of(app, recovery=WorkerRecoveryConfig(enabled=True))):
        await until(lambda: not left(), "all records are gone")


async def test_records_that_take_long_to_delete_do_not_delay_a_sweep(
    tables: Tables, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECONDS_UNTIL_PRUNING", "SECONDS_BETWEEN_PRUNINGS"):
        monkeypatch.setattr(recovery_duty, name, 0.1)
    dsn = client.address.conninfo
    async with running(worker_of(idle_app(dsn), recovery=recovery_of(PATIENT))):
        with psycopg.connect(dsn) as holder:
            holder.execute("lock table graphile_worker._ferryman_progress")
            await until(lambda: somebody_waits_for_a_lock(tables.connection), "the worker prunes, and must wait")
            job = tables.held_job(tables.worker("dead", session_key=12345))
            await until(lambda: tables.job(job)["locked_by"] is None, "the job is recovered meanwhile")
            assert somebody_waits_for_a_lock(tables.connection)


async def test_a_crash_is_remembered_for_as_long_as_it_counts_whatever_the_retention(
    tables: Tables, client: Client
) -> None:
    for age in ("71 hours", "73 hours"):
        tables.crashed_before(1, age=age)
    config = WorkerRecoveryConfig(crash_retention=timedelta(hours=1))
    assert await client.prune_recovery_records(config) == Pruned(crashes=1)
    assert len(tables.crashes()) == 1


async def test_much_is_forgotten_in_small_bites_and_not_all_at_once(
    tables: Tables, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a backlog of one kind holds up neither the others nor the worker."""
    monkeypatch.setattr(retention, "MOST_BATCHES", 2)
    for number in range(7):
        tables.query(LOST, f"worker {number}", "8 days")
        tables.query(STATE, "8 days")
        tables.crashed_before(number, age="31 days")
        fail_for_good(tables, "31 days")
        fail_for_good(tables, "1 day")
    sizes: list[int] = []
    for number in (6, 1):
        steps = counted(prune("graphile_worker", WorkerRecoveryConfig().settings, batch=3), sizes)
        pruned = await AsyncSession(lambda: client.pool, client.schema).run(steps)
        assert pruned == Pruned(lost_workers=number, worker_states=number, crashes=number, failed_jobs=number)
    assert sizes.count(3) == 2 * len(ALL)
    assert max(sizes) == 3


def counted(steps: Steps[Pruned], sizes: list[int]) -> Steps[Pruned]:
    """The same steps; `sizes` takes how many rows each of them brought."""
    rows: Sequence[Row] | None = None
    while True:
        try:
            step = steps.send(rows)
        except StopIteration as end:
            pruned: Pruned = end.value
            return pruned
        rows = yield step
        sizes.append(len(rows or ()))


async def test_failed_jobs_are_deleted_only_of_tasks_that_a_worker_of_ours_has_registered(
    tables: Tables, client: Client
) -> None:
    tables.worker("graphile_worker_0123456789abcdef01", age="0 seconds", tasks=["rust's"])
    tables.worker("ferryman-2", age="0 seconds", tasks="not a list")
    kept = [fail_for_good(tables, "1000 days", task) for task in ("node's", "rust's")]
    gone = [fail_for_good(tables, "1000 days", task, job_key=task) for task in ("task", "other")]
    assert await client.prune_recovery_records() == Pruned(failed_jobs=len(gone))
    assert [job["id"] for job in tables.jobs()] == kept


async def test_a_job_that_may_still_run_is_never_deleted(tables: Tables, client: Client) -> None:
    waiting = tables.add_job(run_at="2000-01-01")["id"]
    running = tables.claim(fail_for_good(tables, "1000 days"), age="1000 days")["id"]
    retried = tables.add_job(run_at="2000-01-01")["id"]
    tables.query("update graphile_worker._private_jobs set attempts = 24, updated_at = '2000-01-01'")
    tables.query("update graphile_worker._private_jobs set attempts = max_attempts where id = %s", running)
    assert await client.prune_recovery_records() == Pruned()
    assert {job["id"] for job in tables.jobs()} == {waiting, running, retried}


@pytest.mark.parametrize("final", [True, False], ids=["for good", "in its last attempt"])
async def test_a_job_counts_from_the_time_it_failed_however_long_it_waited(
    tables: Tables, client: Client, final: bool
) -> None:
    job_id = tables.held_job("worker", max_attempts=1, run_at="2000-01-01")
    tables.query(
        "update graphile_worker._private_jobs set updated_at = '2000-01-01', created_at = '2000-01-01',"
        " run_at = '2000-01-01'"
    )
    token = (tables.job(job_id)["locked_at"] - EPOCH) // timedelta(microseconds=1)
    claim = Claim(job_id, 1, "{}", None, token, "worker", (), 0)

    def fail() -> Steps[None]:
        yield giving_back([Settlement(claim, Failed("no", delay=0.0, is_final=final))])

    await AsyncSession(lambda: client.pool, client.schema).run(fail())
    assert tables.job(job_id)["locked_by"] is None
    assert await client.prune_recovery_records() == Pruned()
    tables.query(
        "update graphile_worker._private_jobs set updated_at = updated_at - interval '31 days',"
        " run_at = run_at - interval '31 days'"
    )
    assert await client.prune_recovery_records() == Pruned(failed_jobs=1)


async def test_start_marks_of_claims_that_are_over_are_removed(tables: Tables, client: Client) -> None:
    running, gone, again = (tables.held_job("worker") for _ in range(3))
    for job_id in (running, gone, again):
        tables.mark(job_id)
    tables.query("delete from graphile_worker._private_jobs where id = %s", gone)
    tables.claim(again, "worker", "1 minute")
    assert await client.prune_recovery_records() == Pruned(start_marks=2)
    marks = tables.query("select job_id from graphile_worker._ferryman_started_jobs")
    assert marks == [{"job_id": running}]


async def test_one_at_a_time_is_enough(tables: Tables, client: Client) -> None:
    tables.query(LOST, "old", "8 days")
    with tables.connection.transaction():
        tables.query("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", 0x46525254)
        assert await client.prune_recovery_records() == Pruned()
    assert await client.prune_recovery_records() == Pruned(lost_workers=1)
