"""Clearing away, while others are at work."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from ferryman import App, CleanupTask, Client, JobSpec, RawJobSpec
from ferryman.client import upkeep
from ferryman.errors import DatabaseError, InvalidJobError
from tests.support.waiting import somebody_waits_for_a_lock, until

TASKS = CleanupTask.GC_TASK_IDENTIFIERS
QUEUES = CleanupTask.GC_JOB_QUEUES
FAILED = CleanupTask.DELETE_PERMAFAILED_JOBS


def _names(connection: psycopg.Connection, column: str, table: str) -> set[str]:
    return {name for (name,) in connection.execute(f"select {column} from graphile_worker.{table}")}


async def _use_and_finish(client: Client, identifier: str, queue_name: str) -> None:
    job = await client.add_raw_job(identifier, {}, JobSpec(queue_name=queue_name))
    await client.complete_jobs([job.id])


async def test_only_jobs_that_failed_for_good_are_deleted(client: Client, connection: psycopg.Connection) -> None:
    kept, retrying, failed, locked, beyond = await client.add_raw_jobs([RawJobSpec("x", n) for n in range(5)])
    update = "update graphile_worker._private_jobs set"
    connection.execute(f"{update} attempts = 24 where id = %s", [retrying.id])
    connection.execute(f"{update} attempts = 25 where id = %s", [failed.id])
    connection.execute(f"{update} attempts = 25, locked_at = now(), locked_by = 'w' where id = %s", [locked.id])
    connection.execute(f"{update} attempts = 26 where id = %s", [beyond.id])

    cleaned = await client.cleanup([FAILED])

    assert cleaned.failed_jobs == 2
    assert [job.id for job in (await client.list_jobs()).jobs] == [kept.id, retrying.id, locked.id]


async def test_an_age_keeps_jobs_that_failed_later(client: Client, connection: psycopg.Connection) -> None:
    old, new, moved = await client.add_raw_jobs([RawJobSpec("x", n) for n in range(3)])
    update = "update graphile_worker._private_jobs set attempts = 25, updated_at = now() - %s::interval"
    connection.execute(f"{update}, run_at = updated_at - interval '1 year' where id = %s", ["31 days", old.id])
    connection.execute(f"{update}, run_at = updated_at - interval '1 year' where id = %s", ["29 days", new.id])
    connection.execute(f"{update} where id = %s", ["1 year", moved.id])

    assert (await client.cleanup([FAILED], older_than=timedelta(days=30))).failed_jobs == 1

    assert [job.id for job in (await client.list_jobs()).jobs] == [new.id, moved.id]
    for wrong in (timedelta(seconds=-1), 30):
        with pytest.raises(InvalidJobError, match="older_than must be a timedelta"):
            await client.cleanup([FAILED], older_than=wrong)
    with pytest.raises(InvalidJobError, match="Add DELETE_PERMAFAILED_JOBS"):
        await client.cleanup(older_than=timedelta(days=30))


async def test_only_queues_that_are_unused_and_unlocked_are_deleted(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("x", {}, JobSpec(queue_name="used"))
    await client.add_raw_job("x")
    await _use_and_finish(client, "x", "empty")
    await _use_and_finish(client, "x", "locked")
    connection.execute(
        "update graphile_worker._private_job_queues set locked_at = now(), locked_by = 'w' where queue_name = 'locked'"
    )

    cleaned = await client.cleanup()

    assert cleaned.queue_names == ("empty",)
    assert _names(connection, "queue_name", "_private_job_queues") == {"used", "locked"}


async def test_only_tasks_that_nobody_knows_are_deleted(database: str, connection: psycopg.Connection) -> None:
    app = App(database)

    @app.task
    def known() -> None: ...

    async with app.client() as client:
        for identifier in ("known", "kept", "forgotten"):
            await _use_and_finish(client, identifier, "q")
        await client.add_raw_job("used")

        cleaned = await client.cleanup([TASKS], keep_task_identifiers=["kept"])

    assert cleaned.task_identifiers == ("forgotten",)
    assert _names(connection, "identifier", "_private_tasks") == {"known", "kept", "used"}


async def test_tasks_of_registered_workers_are_kept_whoever_cleans_up(
    client: Client, connection: psycopg.Connection
) -> None:
    """A busy worker would not see jobs that are added for them later: they would have another number."""
    for identifier in ("idle", "forgotten"):
        await _use_and_finish(client, identifier, "q")
    connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at, metadata) "
        """values ('busy', now(), '{"tasks": ["idle"]}')"""
    )

    assert (await client.cleanup([TASKS])).task_identifiers == ("forgotten",)


async def test_tasks_of_a_worker_that_registers_while_the_clean_up_waits_are_kept(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    for identifier in ("idle", "forgotten"):
        await _use_and_finish(client, identifier, "q")
    async with await psycopg.AsyncConnection.connect(database) as producer:
        await producer.execute("select graphile_worker.add_job('x')")
        cleanup = asyncio.create_task(client.cleanup([TASKS]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the clean-up waits for the producer")
        connection.execute(
            "insert into graphile_worker._private_workers (id, last_heartbeat_at, metadata) "
            """values ('late', now(), '{"tasks": ["idle"]}')"""
        )
        await producer.commit()

        assert (await cleanup).task_identifiers == ("forgotten",)


async def test_tasks_are_cleaned_up_where_workers_cannot_register(
    client: Client, connection: psycopg.Connection
) -> None:
    await _use_and_finish(client, "forgotten", "q")
    await client.uninstall_extensions()

    assert (await client.cleanup([TASKS])).task_identifiers == ("forgotten",)


async def test_all_three_together_start_with_the_jobs(client: Client, connection: psycopg.Connection) -> None:
    await client.add_raw_job("x", {}, JobSpec(queue_name="q", max_attempts=1))
    connection.execute("update graphile_worker._private_jobs set attempts = 1")

    cleaned = await client.cleanup(CleanupTask)

    assert (cleaned.failed_jobs, cleaned.queue_names, cleaned.task_identifiers) == (1, ("q",), ("x",))


async def test_a_queue_is_kept_for_a_job_that_is_not_committed_yet(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    await _use_and_finish(client, "x", "q")
    async with await psycopg.AsyncConnection.connect(database) as producer:
        await producer.execute("select graphile_worker.add_job('x', queue_name := 'q')")
        cleanup = asyncio.create_task(client.cleanup([QUEUES]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the clean-up waits for the producer")
        await producer.commit()

        assert (await cleanup).queue_names == ()
    [job] = (await client.list_jobs()).jobs
    assert job.queue_name == "q"


async def test_a_task_is_kept_for_a_producer_that_has_looked_it_up(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    """Node's add_jobs looks tasks up in one statement and inserts jobs in a later one."""
    await _use_and_finish(client, "x", "q")
    async with await psycopg.AsyncConnection.connect(database) as producer:
        await producer.execute(
            "insert into graphile_worker._private_tasks (identifier) select 'x' "
            "where not exists (select from graphile_worker._private_tasks where identifier = 'x')"
        )
        cleanup = asyncio.create_task(client.cleanup([TASKS]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the clean-up waits for the producer")
        await producer.execute(
            "insert into graphile_worker._private_jobs (task_id) select id from graphile_worker._private_tasks"
        )
        await producer.commit()

        assert (await cleanup).task_identifiers == ()
    assert [job.task_identifier for job in (await client.list_jobs()).jobs] == ["x"]


async def test_our_own_producer_in_a_transaction_holds_the_clean_up_off(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    await _use_and_finish(client, "x", "q")
    async with await psycopg.AsyncConnection.connect(database) as producer:
        await client.add_raw_job("x", {}, JobSpec(queue_name="q"), using=producer)
        cleanup = asyncio.create_task(client.cleanup([TASKS, QUEUES]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the clean-up waits for the producer")
        await producer.commit()

        cleaned = await cleanup
    assert (cleaned.task_identifiers, cleaned.queue_names) == ((), ())


async def test_no_job_is_left_dangling_when_producers_and_clean_ups_run_together(
    database: str, connection: psycopg.Connection
) -> None:
    async with Client(database, max_connections=8) as client:
        done = False

        async def produce(name: str) -> None:
            for _ in range(60):
                await _use_and_finish(client, name, name)
                await client.add_raw_job(name, {}, JobSpec(queue_name=name))

        async def clean() -> None:
            while not done:
                await client.cleanup([TASKS, QUEUES])

        cleaner = asyncio.create_task(clean())
        await asyncio.gather(*(produce(f"p{number}") for number in range(4)))
        done = True
        await cleaner

        dangling = connection.execute(
            "select count(*) from graphile_worker._private_jobs as job "
            "left join graphile_worker._private_tasks as task on task.id = job.task_id "
            "left join graphile_worker._private_job_queues as queue on queue.id = job.job_queue_id "
            "where task.id is null or queue.id is null"
        ).fetchone()
        assert dangling == (0,)
        assert (await client.counts()).total == 240


async def test_a_transaction_that_stays_open_is_reported_and_nothing_is_deleted(
    client: Client, connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LOCK_ATTEMPTS", 1)
    await _use_and_finish(client, "x", "q")
    async with await psycopg.AsyncConnection.connect(database) as producer:
        await producer.execute("select graphile_worker.add_job('x')")

        with pytest.raises(DatabaseError, match="a transaction that adds jobs stays open"):
            await client.cleanup([QUEUES])
    assert _names(connection, "queue_name", "_private_job_queues") == {"q"}


async def test_an_unknown_clean_up_is_refused_before_anything_is_deleted(client: Client) -> None:
    with pytest.raises(InvalidJobError, match="Invalid cleanup tasks; allowed values: 'GC_TASK_IDENTIFIERS'"):
        await client.cleanup(["GC_JOB_QUEUES", "EVERYTHING"])
