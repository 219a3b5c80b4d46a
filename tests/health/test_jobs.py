"""Jobs that no worker would ever claim, and leftovers of others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import psycopg
import pytest

from ferryman import App, JobSpec, JobState, Repair, Severity, Worker
from tests.health.looking import look, one, sweep
from tests.support.tables import OURS
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from typing import LiteralString

    from ferryman import Client, SyncClient
    from tests.support.tables import Tables

DROP_QUEUES = "delete from graphile_worker._private_job_queues"
DROP_TASKS = "delete from graphile_worker._private_tasks"


async def _ran_by_a_worker(database: str) -> list[int]:
    app = App(database)
    ran = []

    @app.task(identifier="task")
    async def note(number: int) -> None:
        ran.append(number)

    await Worker(app).run_once()
    return ran


async def test_jobs_whose_queue_was_deleted_get_one_again_and_run_in_order(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    for number in (1, 2):
        await client.add_raw_job("task", {"number": number}, JobSpec(queue_name="q"))
    connection.execute(DROP_QUEUES)
    assert await _ran_by_a_worker(database) == []

    [finding] = (await client.check_health()).of("dangling_jobs")
    assert (finding.severity, finding.repair) == (Severity.ERROR, Repair.DANGLING_QUEUES)
    assert (finding.facts["jobs"], finding.facts["job_ids"]) == (2, [1, 2])

    [done] = await client.repair_health([Repair.DANGLING_QUEUES])
    assert done.names == ("ferryman-lost-queue-1",)
    assert (await client.check_health()).severity is Severity.OK
    assert await _ran_by_a_worker(database) == [1, 2]


async def test_jobs_whose_task_was_deleted_are_seen_again_and_can_be_moved_to_their_task(
    client: Client, sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    job = await client.add_raw_job("task", {"number": 7})
    connection.execute(DROP_TASKS)
    assert await _ran_by_a_worker(database) == []

    finding = one(sync_client, "dangling_jobs")
    assert (finding.severity, finding.repair) == (Severity.ERROR, Repair.DANGLING_TASKS)
    [done] = await client.repair_health(["dangling-tasks"])

    assert done.names == (f"ferryman-lost-task-{finding.facts['numbers'][0]}",)
    kept = await client.get_job(job.id)
    assert kept is not None
    assert (kept.task_identifier, kept.payload) == (done.names[0], {"number": 7})
    unnamed = one(sync_client, "dangling_jobs")
    assert (unnamed.severity, unnamed.repair) == (Severity.WARNING, None)
    connection.execute(cast("LiteralString", unnamed.remedies[0].replace("<task>", "task")))
    assert one(sync_client, "dangling_jobs").severity is Severity.OK
    assert await _ran_by_a_worker(database) == [7]


async def test_a_job_that_runs_while_its_queue_is_mended_keeps_the_queue_to_itself(
    client: Client, tables: Tables, database: str
) -> None:
    running = tables.held_job("worker-1", age="1 minute", queue_name="q")
    tables.add_job("task", payload={"number": 2}, queue_name="q")
    tables.query(DROP_QUEUES)

    await client.repair_health([Repair.DANGLING_QUEUES])

    (queue,) = tables.query("select * from graphile_worker._private_job_queues")
    job = tables.job(running)
    assert (queue["locked_by"], queue["locked_at"]) == (job["locked_by"], job["locked_at"])
    assert await _ran_by_a_worker(database) == []
    assert (await client.check_health()).severity is Severity.OK


@pytest.mark.parametrize(
    ("column", "repair", "table"),
    [
        ("job_queue_id", Repair.DANGLING_QUEUES, "_private_job_queues"),
        ("task_id", Repair.DANGLING_TASKS, "_private_tasks"),
    ],
)
def test_a_number_that_was_not_given_out_yet_is_not_given_out_twice(
    sync_client: SyncClient, tables: Tables, column: str, repair: Repair, table: str
) -> None:
    job_id = tables.add_job(queue_name="q")["id"]
    tables.query(f"update graphile_worker._private_jobs set {column} = 500 where id = %s", job_id)

    sync_client.repair_health([repair])
    tables.add_job("later", queue_name="later")

    assert max(row["id"] for row in tables.query(f"select id from graphile_worker.{table}")) == 501


async def test_a_repair_waits_for_producers_and_takes_nothing_that_they_add(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database) as producer:
        producer.execute("select graphile_worker.add_job('task', queue_name => 'fresh')")
        repairing = asyncio.create_task(client.repair_health([Repair.DANGLING_QUEUES]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the repair waits")
        producer.commit()

    [done] = await repairing
    assert done.number == 0
    names = connection.execute("select queue_name from graphile_worker._private_job_queues").fetchall()
    assert names == [("fresh",)]


def test_jobs_that_failed_for_good_are_a_notice(sync_client: SyncClient) -> None:
    jobs = [sync_client.add_raw_job(task) for task in ("mail", "mail", "report", "fine")]
    sync_client.permanently_fail_jobs([job.id for job in jobs[:3]])

    report = sync_client.check_health()

    [finding] = report.of("failed_jobs")
    assert finding.severity is Severity.NOTICE
    assert finding.seen == "3 jobs failed for good: mail (2), report (1)"
    assert report.is_healthy


def test_old_failed_jobs_of_tasks_that_no_worker_of_ours_has_are_named(sync_client: SyncClient, tables: Tables) -> None:
    tables.worker("ferryman-1", tasks=["mail"])
    jobs = [sync_client.add_raw_job(task) for task in ("mail", "report", "report", "fresh")]
    sync_client.permanently_fail_jobs([job.id for job in jobs])
    tables.query(
        "update graphile_worker._private_jobs set updated_at = '2000-01-01', run_at = '2000-01-01' where id <= %s",
        jobs[2].id,
    )

    finding = one(sync_client, "old_failed_jobs")
    assert finding.severity is Severity.NOTICE
    assert finding.seen == "2 jobs failed more than 30d ago: report (2)"
    assert finding.remedies == ("ferryman cleanup delete-permafailed-jobs --older-than 30d",)


def test_a_job_that_killed_its_workers_is_a_warning_until_it_is_let_go(sync_client: SyncClient, tables: Tables) -> None:
    tables.worker("dead", **OURS)
    poison = tables.held_job("dead", identifier="resize")
    tables.suspect(poison, "alone")
    tables.mark(poison)
    for _ in range(2):
        tables.crashed_before(poison)
    sweep(sync_client)
    job = sync_client.get_job(poison)
    assert job is not None
    assert job.state is JobState.FAILED

    finding = one(sync_client, "poisoned_jobs")
    assert finding.severity is Severity.WARNING
    assert f"{poison} (resize, crashed 3 times)" in finding.seen

    sync_client.complete_jobs([poison])
    assert one(sync_client, "poisoned_jobs").severity is Severity.OK


PROGRESS = """
    insert into graphile_worker._ferryman_progress
    select id, locked_by, locked_at, 0.5, null, now() from graphile_worker._private_jobs where id = %s
"""


def test_records_of_claims_that_are_over_are_deleted_and_the_others_stay(
    sync_client: SyncClient, tables: Tables
) -> None:
    over, running = (tables.held_job("worker-1", age="1 minute") for _ in range(2))
    for job_id in (over, running):
        tables.mark(job_id)
        tables.query(PROGRESS, job_id)
    assert one(sync_client, "leftovers").severity is Severity.OK
    tables.query("delete from graphile_worker._private_jobs where id = %s", over)

    finding = one(sync_client, "leftovers")
    assert (finding.severity, finding.repair) == (Severity.NOTICE, Repair.LEFTOVERS)

    [done] = sync_client.repair_health([Repair.LEFTOVERS])
    assert done.number == 2
    for table in ("_ferryman_started_jobs", "_ferryman_progress"):
        assert [row["job_id"] for row in tables.query(f"select job_id from graphile_worker.{table}")] == [running]


async def test_a_start_mark_that_is_renewed_during_the_repair_stays(
    client: Client, tables: Tables, connection: psycopg.Connection, database: str
) -> None:
    job_id = tables.held_job("worker-1", age="1 minute")
    tables.mark(job_id)
    tables.set(job_id, locked_by=None, locked_at=None)
    with psycopg.connect(database) as claimer:
        claimer.execute("update graphile_worker._private_jobs set locked_by = 'worker-2', locked_at = now()")
        claimer.execute(
            "update graphile_worker._ferryman_started_jobs mark"
            " set locked_by = job.locked_by, locked_at = job.locked_at"
            " from graphile_worker._private_jobs job where job.id = mark.job_id"
        )
        repairing = asyncio.create_task(client.repair_health([Repair.LEFTOVERS]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the repair waits for the mark")
        claimer.commit()

    [done] = await repairing
    assert done.number == 0
    assert [row["locked_by"] for row in tables.query("select * from graphile_worker._ferryman_started_jobs")] == [
        "worker-2"
    ]


def test_a_repair_that_nobody_knows_is_refused(sync_client: SyncClient) -> None:
    with pytest.raises(ValueError, match="repairs must be some of 'wedged-queues'"):
        sync_client.repair_health(["everything"])


def test_nothing_dangles_in_a_queue_at_work(sync_client: SyncClient, tables: Tables) -> None:
    tables.add_job(queue_name="q")
    tables.add_job()
    assert [finding.severity for finding in look(sync_client, "dangling_jobs")] == [Severity.OK]
