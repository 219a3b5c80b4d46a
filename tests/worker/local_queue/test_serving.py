"""Jobs reach the slots through the local queue: all of them, each once, in order, and no slot waits in vain."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import CleanupTask, JobSpec, WorkerContext
from ferryman.hooks import LocalQueueInit
from ferryman.worker import LocalQueueConfig
from ferryman.worker.settling import backlog
from tests.support.inside import inside
from tests.support.waiting import somebody_waits_for_a_lock, until
from tests.support.workers import jobs, queues, running
from tests.worker.local_queue.queue_watch import QueueWatch, numbered

if TYPE_CHECKING:
    from ferryman import App, Client


async def test_jobs_run_as_they_arrive(watch: QueueWatch, client: Client, connection: psycopg.Connection) -> None:
    async with running(watch.worker()):
        for number in range(5):
            await client.add_raw_job("note", {"number": number})
            await until(lambda number=number: len(watch.ran) == number + 1, "the job that just arrived runs")

    assert watch.ran == [0, 1, 2, 3, 4]
    assert jobs(connection) == []


@pytest.mark.parametrize(("count", "size"), [(20, 50), (100, 50), (30, 1)])
async def test_a_backlog_is_drained_whatever_the_size(
    watch: QueueWatch, client: Client, connection: psycopg.Connection, count: int, size: int
) -> None:
    await client.add_raw_jobs(numbered("note", count))

    async with running(watch.worker(LocalQueueConfig(size=size), use_notification_delivery=False)):
        await until(lambda: len(watch.ran) == count, "all have run")

    assert sorted(watch.ran) == list(range(count))
    assert jobs(connection) == []


async def test_thousands_of_jobs_run_once_each_while_more_arrive(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 1500))

    async with running(watch.worker(LocalQueueConfig(size=64), concurrency=8)):
        await client.add_raw_jobs(numbered("note", 1500, first=1500))
        await until(lambda: len(watch.ran) >= 3000, "all have run")

    assert sorted(watch.ran) == list(range(3000))
    assert jobs(connection) == []


async def test_two_workers_share_the_jobs(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 1000))

    config = LocalQueueConfig(size=20)
    async with running(watch.worker(config)), running(watch.worker(config)):
        await until(lambda: len(watch.ran) >= 1000, "all have run")

    assert sorted(watch.ran) == list(range(1000))


async def test_all_slots_are_served_at_once(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 10))

    async with running(watch.worker(concurrency=5)):
        await until(lambda: watch.inside == 5, "every slot has a job")
        watch.let_end(10)
        await until(lambda: len(watch.ran) == 10, "all have run")

    assert watch.most_inside == 5


async def test_it_claims_its_size_beyond_the_slots_and_more_at_three_quarters_while_they_are_busy(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 20))

    async with running(watch.worker(LocalQueueConfig(size=4), concurrency=1)):
        await until(lambda: watch.fetched == [5], "one runs, four wait")
        watch.let_end(1)
        await until(lambda: watch.fetched == [5, 1], "three wait, and one more is fetched beside the running one")
        await until(lambda: len([job for job in jobs(connection) if job.locked_at is not None]) == 5, "five are held")
        watch.let_end(20)
        await until(lambda: len(watch.ran) == 20, "all have run")

    assert watch.ran == list(range(20))


async def test_several_queues_are_one_that_holds_as_much(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 12))

    config = LocalQueueConfig(size=3, queue_count=4)
    async with running(watch.worker(config, concurrency=2)):
        await until(lambda: watch.fetched == [8], "two run, and as there are two slots, two times three wait")
        watch.let_end(12)
        await until(lambda: len(watch.ran) == 12, "all have run")

    assert len(watch.told(LocalQueueInit)) == 1


async def test_a_job_waits_behind_those_that_were_claimed_before(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 6))

    async with running(watch.worker(LocalQueueConfig(size=5), concurrency=1)):
        await until(lambda: watch.fetched == [6], "one runs, five wait")
        await client.add_raw_job("stay", {"number": 99}, JobSpec(priority=-10))
        watch.let_end(7)
        await until(lambda: len(watch.ran) == 7, "all have run")

    assert watch.ran == [0, 1, 2, 3, 4, 5, 99]


async def test_a_job_for_later_runs_when_it_is_due(watch: QueueWatch, client: Client) -> None:
    due_at = datetime.now(UTC) + timedelta(milliseconds=400)

    async with running(watch.worker()):
        await client.add_raw_jobs(numbered("note", 1, run_at=due_at))
        await until(lambda: watch.ran == [0], "it runs without a poll")

    assert datetime.now(UTC) >= due_at


async def test_a_failed_job_runs_again_when_it_is_due(watch: QueueWatch, app: App, client: Client) -> None:
    attempts = []

    @app.task(retry=lambda attempts, error: timedelta(milliseconds=50))
    async def stubborn() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not yet")

    async with running(watch.worker()):
        await client.add_job(stubborn.job())
        await until(lambda: len(attempts) == 3, "the third attempt")


async def test_jobs_with_forbidden_flags_are_never_touched(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 3))
    await client.add_raw_jobs(numbered("note", 3, first=10, flags=["slow"]))

    async with running(watch.worker(forbidden_flags=["slow"])):
        await until(lambda: len(watch.ran) == 3, "those without the flag run")
        await until(lambda: watch.fetched[-1:] == [0], "nothing else is found")

    assert sorted(watch.ran) == [0, 1, 2]
    assert watch.fetched[0] == 3
    assert [(job.attempts, job.locked_at) for job in jobs(connection)] == [(0, None)] * 3


async def test_run_once_runs_and_settles_everything_without_a_local_queue(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 30))
    await client.add_raw_jobs(numbered("note", 5, first=30, queue_name="letters"))

    await watch.worker(LocalQueueConfig(size=5)).run_once()

    assert sorted(watch.ran) == list(range(35))
    assert jobs(connection) == []
    assert watch.events == []


async def test_named_queues_stay_serial_and_in_order(watch: QueueWatch, app: App, client: Client) -> None:
    inside: Counter[str | None] = Counter()
    order: dict[str | None, list[int]] = {"a": [], "b": [], "c": []}

    @app.task
    async def cross(ctx: WorkerContext, number: int) -> None:
        queue = ctx.job.queue_name
        inside[queue] += 1
        assert inside[queue] == 1
        await asyncio.sleep(0)
        order[queue].append(number)
        inside[queue] -= 1

    for queue in order:
        await client.add_raw_jobs(numbered("cross", 10, queue_name=queue))
    async with running(watch.worker()), running(watch.worker()):
        await until(lambda: sum(map(len, order.values())) == 30, "all have run, without a poll")

    assert list(order.values()) == [list(range(10))] * 3


async def test_a_waiting_job_holds_its_queue_and_no_second_one_is_claimed(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 1))
    await client.add_raw_jobs(numbered("stay", 3, first=1, queue_name="letters"))

    async with running(watch.worker(concurrency=1)):
        await until(lambda: watch.fetched[:1] == [2], "one runs, and the first of the queue waits")
        assert [job.locked_at is not None for job in jobs(connection)] == [True, True, False, False]
        assert [queue.locked_at is not None for queue in queues(connection)] == [True]
        watch.let_end(4)
        await until(lambda: len(watch.ran) == 4, "all have run")

    assert watch.ran == [0, 1, 2, 3]


async def test_fetching_waits_for_settlements_and_goes_on(
    watch: QueueWatch, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST_UNSETTLED_PER_SLOT", 0)
    await client.add_raw_jobs(numbered("note", 200))

    async with running(watch.worker(LocalQueueConfig(size=10))):
        await until(lambda: len(watch.ran) == 200, "all have run, without a poll")


async def test_a_lost_connection_is_survived(watch: QueueWatch, client: Client, connection: psycopg.Connection) -> None:
    async with running(watch.worker(poll_interval=timedelta(milliseconds=200))):
        await until(lambda: watch.fetched != [], "it looks for jobs")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        connection.execute("select graphile_worker.add_job('note', '{\"number\": 1}')")
        await until(lambda: watch.ran == [1], "the job runs")


async def test_a_function_for_forbidden_flags_that_fails_is_asked_again(watch: QueueWatch, client: Client) -> None:
    asked = []

    def flags() -> list[str]:
        asked.append(1)
        if len(asked) == 1:
            raise RuntimeError("not ready")
        return []

    await client.add_raw_jobs(numbered("note", 1))
    async with running(watch.worker(forbidden_flags=flags)):
        await until(lambda: watch.ran == [0], "the job runs")


async def test_jobs_start_while_tasks_that_were_cleaned_away_get_new_numbers(
    watch: QueueWatch, client: Client, database: str, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 3))
    # A listener that connects late would make it look for jobs, and so register its tasks, before they are locked.
    worker = watch.worker(concurrency=1, use_notification_delivery=False)

    async with running(worker):
        await until(lambda: watch.inside == 1, "one runs, two wait")
        cleaned = await client.cleanup([CleanupTask.GC_TASK_IDENTIFIERS])
        assert "note" in cleaned.task_identifiers
        with psycopg.connect(database) as holder:
            holder.execute("lock table graphile_worker._private_tasks in share row exclusive mode")
            inside(worker).local_queue.wake()
            await until(lambda: somebody_waits_for_a_lock(connection), "the tasks are registered again")
            watch.let_end(1)
            await until(lambda: watch.ran == [0, 1], "the next job starts")
        watch.let_end(2)
        await client.add_raw_jobs(numbered("note", 1, first=9))
        inside(worker).local_queue.wake()  # it may have looked just before
        await until(lambda: watch.ran == [0, 1, 2, 9], "the task with the new number runs too")


async def test_a_queue_that_runs_dry_while_a_fetch_is_under_way_fetches_again_at_once(
    watch: QueueWatch, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without announcements, nobody else would say that there is more, and the next poll is far away."""
    await client.add_raw_jobs(numbered("stay", 2))
    worker, has_claimed, go_on = (
        watch.worker(concurrency=1, use_notification_delivery=False),
        asyncio.Event(),
        asyncio.Event(),
    )

    async with running(worker):
        await until(lambda: watch.inside == 1, "one runs, one waits")
        claimer = inside(worker).claimer
        claim = claimer.claim

        async def hold_reply(*args: Any, **options: Any) -> Any:
            claimed = await claim(*args, **options)
            has_claimed.set()
            await go_on.wait()
            return claimed

        monkeypatch.setattr(claimer, "claim", hold_reply)
        inside(worker).local_queue.wake()
        await has_claimed.wait()
        await client.add_raw_jobs(numbered("note", 1, first=9))
        watch.let_end(1)
        await until(lambda: watch.ran == [0, 1], "the last one that waited is taken")
        go_on.set()
        watch.let_end(1)
        await until(lambda: watch.ran == [0, 1, 9], "the new job is found")
