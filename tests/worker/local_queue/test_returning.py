"""Jobs that a local queue claimed and did not start go back as if nobody had claimed them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman.hooks import LocalQueueMode, LocalQueueReturnJobs, SettleRefused, WorkerShutdown
from ferryman.worker import LocalQueueConfig
from ferryman.worker.claiming.claimer import Claimer
from tests.support.inside import inside
from tests.support.waiting import somebody_waits_for_a_lock, until, waiting_for_locks
from tests.support.workers import jobs, queues, running
from tests.worker.local_queue.queue_watch import QueueWatch, numbered

if TYPE_CHECKING:
    from ferryman import Client
    from ferryman.worker.claiming.claims import Claimed

POLLING, WAITING = LocalQueueMode.POLLING, LocalQueueMode.WAITING
TTL_EXPIRED, RELEASED = LocalQueueMode.TTL_EXPIRED, LocalQueueMode.RELEASED


def untouched(connection: psycopg.Connection) -> list[Any]:
    """Jobs as they were before anybody claimed them."""
    return [
        job.payload["number"]
        for job in jobs(connection)
        if (job.attempts, job.locked_at, job.locked_by, job.last_error) == (0, None, None, None) and job.due_in <= 0
    ]


async def test_a_shutdown_gives_jobs_back_while_running_ones_still_go_on(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    watch.hooks.on(WorkerShutdown, watch.events.append)
    await client.add_raw_jobs(numbered("stay", 10))
    worker = watch.worker(concurrency=1, shutdown={"grace_period": timedelta(minutes=1)})

    async with running(worker) as life:
        await until(lambda: watch.modes == [POLLING, WAITING], "nine wait")
        assert untouched(connection) == []
        worker.request_shutdown()
        await until(lambda: untouched(connection) == list(range(1, 10)), "nine are back")
        assert not life.done()
        watch.let_end(1)

    assert watch.ran == [0]
    assert len(jobs(connection)) == 9
    assert watch.modes == [POLLING, WAITING, RELEASED]
    assert watch.returned == [9]
    assert [type(event) for event in watch.events[-2:]] == [LocalQueueReturnJobs, WorkerShutdown]


async def test_a_slot_that_frees_after_the_shutdown_began_gets_no_job(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 10))
    worker = watch.worker(concurrency=2)

    async with running(worker):
        await until(lambda: watch.inside == 2, "two run")
        watch.let_end(10)
        worker.request_shutdown()

    assert watch.ran == [0, 1]
    assert untouched(connection) == list(range(2, 10))


async def test_what_a_fetch_under_way_brings_goes_back(
    watch: QueueWatch, client: Client, database: str, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 10))
    worker = watch.worker()

    with psycopg.connect(database) as holder:
        holder.execute("lock table graphile_worker._private_jobs in access exclusive mode")
        life = asyncio.create_task(worker.run())
        await until(lambda: somebody_waits_for_a_lock(connection), "the fetch waits for the table")
        worker.request_shutdown()
    await asyncio.wait_for(life, 60)

    assert watch.ran == []
    assert watch.fetched == [10]
    assert watch.returned == [10]
    assert untouched(connection) == list(range(10))
    assert watch.modes[-1] is RELEASED


async def test_a_database_that_does_not_answer_does_not_keep_the_worker(
    watch: QueueWatch, client: Client, database: str, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 10))
    worker = watch.worker(shutdown={"grace_period": timedelta(milliseconds=100)})

    with psycopg.connect(database) as holder:
        holder.execute("lock table graphile_worker._private_job_queues in access exclusive mode")
        life = asyncio.create_task(worker.run())
        await until(lambda: somebody_waits_for_a_lock(connection), "the fetch waits for the table")
        worker.request_shutdown()
        await asyncio.wait_for(life, 60)

    assert watch.modes == [POLLING, RELEASED]
    assert untouched(connection) == list(range(10))


async def test_a_refill_under_way_goes_back_with_the_rest(
    watch: QueueWatch, client: Client, database: str, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 20))
    worker = watch.worker(LocalQueueConfig(size=4), concurrency=1)

    async with running(worker):
        await until(lambda: watch.fetched == [5], "one runs, four wait")
        with psycopg.connect(database) as holder:
            holder.execute("lock table graphile_worker._private_jobs in access exclusive mode")
            watch.let_end(1)
            await until(lambda: len(watch.ran) == 2, "three wait, and one more is wanted")
            # The settlement of what ran waits too, so one who waits is not proof enough.
            await until(lambda: waiting_for_locks(connection) == 2, "the fetch waits for the table")
            worker.request_shutdown()
            watch.let_end(1)

    assert watch.ran == [0, 1]
    assert untouched(connection) == list(range(2, 20))
    assert watch.returned == [4]


async def test_jobs_that_get_no_slot_within_the_ttl_go_back_and_are_fetched_again_later(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 9))
    await client.add_raw_jobs(numbered("stay", 1, first=9, queue_name="letters"))

    async with running(watch.worker(LocalQueueConfig(ttl=timedelta(milliseconds=300)), concurrency=1)):
        await until(lambda: watch.returned == [9], "nine are back")
        assert untouched(connection) == list(range(1, 10))
        assert [queue.locked_at for queue in queues(connection)] == [None]
        assert watch.modes == [POLLING, WAITING, TTL_EXPIRED]
        watch.let_end(10)
        await until(lambda: len(watch.ran) == 10, "all have run, without a poll")

    assert sorted(watch.ran) == list(range(10))
    assert watch.modes[:5] == [POLLING, WAITING, TTL_EXPIRED, POLLING, WAITING]
    assert jobs(connection) == []


async def test_an_expired_queue_fetches_nothing_until_a_slot_is_free(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 3))
    worker = watch.worker(LocalQueueConfig(ttl=timedelta(milliseconds=100)), concurrency=1)

    async with running(worker):
        await until(lambda: watch.returned == [2], "two are back")
        fetched = list(watch.fetched)
        inside(worker).local_queue.wake()
        await until(lambda: not inside(worker).local_queue._alarm._rung.is_set(), "the queue was woken")
        assert untouched(connection) == [1, 2]
        assert watch.fetched == fetched
        watch.let_end(3)
        await until(lambda: len(watch.ran) == 3, "all have run")


async def test_another_worker_runs_what_went_back(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 5))
    selfish = watch.worker(LocalQueueConfig(ttl=timedelta(milliseconds=200)), concurrency=1)

    async with running(selfish):
        await until(lambda: watch.returned == [4], "four are back")
        async with running(watch.worker(concurrency=4)):
            await until(lambda: watch.inside == 5, "all run at once")
            watch.let_end(5)

    assert sorted(watch.ran) == [0, 1, 2, 3, 4]


async def test_giving_back_is_fenced(watch: QueueWatch, client: Client, connection: psycopg.Connection) -> None:
    await client.add_raw_jobs(numbered("stay", 4))
    worker = watch.worker(concurrency=1)

    async with running(worker):
        await until(lambda: watch.modes == [POLLING, WAITING], "three wait")
        connection.execute(
            "update graphile_worker._private_jobs set locked_by = 'other', locked_at = now()"
            " where payload->>'number' = '2'"
        )
        worker.request_shutdown()
        watch.let_end(1)

    taken = [job for job in jobs(connection) if job.locked_by is not None]
    assert [(job.locked_by, job.attempts) for job in taken] == [("other", 1)]
    assert untouched(connection) == [1, 3]
    assert watch.returned == [2]
    assert [event.job_id for event in watch.told(SettleRefused)] == [taken[0].id]


async def test_a_cancelled_worker_gives_jobs_back(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 10))
    life = asyncio.create_task(watch.worker(concurrency=1, shutdown={"grace_period": timedelta()}).run())
    await until(lambda: watch.modes == [POLLING, WAITING], "nine wait")

    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life

    assert untouched(connection) == list(range(1, 10))
    assert watch.returned == [9]
    assert watch.modes[-1] is RELEASED


async def test_a_worker_that_is_cancelled_in_a_fetch_gives_back_what_that_brings(
    watch: QueueWatch, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, go_on = asyncio.Event(), asyncio.Event()
    claim = Claimer.claim

    async def claim_and_wait(claimer: Claimer, wanted: int, **given: Any) -> Claimed:
        answer = await claim(claimer, wanted, **given)
        claimed.set()
        await go_on.wait()
        return answer

    monkeypatch.setattr(Claimer, "claim", claim_and_wait)
    await client.add_raw_jobs(numbered("note", 5))
    life = asyncio.create_task(watch.worker().run())
    await asyncio.wait_for(claimed.wait(), 60)

    life.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await life

    assert watch.ran == []
    assert untouched(connection) == [0, 1, 2, 3, 4]


async def test_a_worker_that_was_told_to_stop_before_it_began_fetches_nothing(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("note", 3))
    worker = watch.worker()
    worker.request_shutdown()

    await asyncio.wait_for(worker.run(), 60)

    assert watch.fetched == []
    assert watch.modes == [POLLING, RELEASED]
    assert untouched(connection) == [0, 1, 2]


async def test_jobs_go_back_after_an_outage_too(
    watch: QueueWatch, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered("stay", 10))
    worker = watch.worker(concurrency=1)

    async with running(worker):
        await until(lambda: watch.modes == [POLLING, WAITING], "nine wait")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        worker.request_shutdown()
        watch.let_end(1)

    assert untouched(connection) == list(range(1, 10))
    assert watch.returned == [9]
