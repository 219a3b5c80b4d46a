"""How a worker finds jobs: announcements, due times, polling, and going on until nothing is left."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import CleanupTask, JobSpec, RawJobSpec
from ferryman.errors import ConfigurationError
from ferryman.worker import LocalQueueConfig
from ferryman.worker.claiming.claim_backoff import BURST, PER_SECOND
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.claiming.direct import DirectSource
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, queues, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client


def numbered(count: int, **spec: object) -> list[RawJobSpec]:
    return [RawJobSpec("note", {"number": number}, JobSpec(**spec)) for number in range(count)]


async def test_jobs_run_as_they_arrive_and_each_once(app: App, client: Client, ran: list[int], connection) -> None:
    async with running(worker_of(app)):
        for number in range(5):
            await client.add_raw_job("note", {"number": number})
            await until(lambda number=number: len(ran) == number + 1, "the job that just arrived runs")

    assert ran == [0, 1, 2, 3, 4]
    assert jobs(connection) == []


async def test_jobs_that_wait_do_not_keep_the_others_of_their_claim_waiting(
    app: App, client: Client, ran: list[int]
) -> None:
    """Small jobs share a slot; those that wait for each other need one each, and never more than there are."""
    together, now, most = asyncio.Barrier(3), 0, 0

    @app.task
    async def meet() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await together.wait()
        now -= 1

    meeting = RawJobSpec("meet", {})
    mixed = [*numbered(2), meeting, meeting, *numbered(1), meeting, *numbered(2)]
    await client.add_raw_jobs(mixed * 3)
    await asyncio.wait_for(run_all(app, concurrency=3), 60)

    assert (len(ran), most) == (15, 3)


async def test_without_a_local_queue_no_more_jobs_are_claimed_than_there_are_slots(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    go_on, started = asyncio.Event(), 0

    @app.task
    async def stay() -> None:
        nonlocal started
        started += 1
        await go_on.wait()

    await client.add_raw_jobs([RawJobSpec("stay", {})] * 7)
    async with running(worker_of(app, concurrency=3)):
        await until(lambda: started == 3, "every slot is busy")
        claimed = [job for job in jobs(connection) if job.locked_by is not None]
        assert [(job.attempts, job.locked_at is None) for job in claimed] == [(1, False)] * 3
        go_on.set()
        await until(lambda: started == 7, "the others follow")


async def test_announcements_are_heard_while_every_slot_is_busy_and_cost_no_claim(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are hints: as long as nothing can be started, one that is remembered is as good as fifty."""
    heard, claims, go_on, ran = 0, 0, asyncio.Event(), 0
    wake, claim = DirectSource.wake, Claimer.claim

    def count(self: DirectSource) -> None:
        nonlocal heard
        heard += 1
        wake(self)

    async def counted(self: Claimer, *args: Any, **options: Any) -> Any:
        nonlocal claims
        claims += 1
        return await claim(self, *args, **options)

    @app.task
    async def stay() -> None:
        nonlocal ran
        ran += 1
        await go_on.wait()

    monkeypatch.setattr(DirectSource, "wake", count)
    monkeypatch.setattr(Claimer, "claim", counted)
    await client.add_raw_job("stay")
    worker = worker_of(app, concurrency=1)
    async with running(worker):
        await until(lambda: inside(worker).is_listening and ran == 1, "it listens, and its slot is busy")
        heard = claims = 0
        for _ in range(50):
            await client.add_raw_job("stay")
        await until(lambda: heard >= 50, "it has heard of all of them")
        assert (claims, ran) == (0, 1)
        go_on.set()
        await until(lambda: ran == 51, "all run, without a poll")


async def test_announcements_are_heard_also_while_the_connection_is_proved(
    app: App, client: Client, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.worker.claiming.listener.SECONDS_BETWEEN_PROOFS", 0.0001)
    async with running(worker_of(app, poll_interval=timedelta(hours=1))):
        for number in range(100):
            await client.add_raw_job("note", {"number": number})
            await until(lambda number=number: len(ran) == number + 1, "the job that just arrived runs")


async def test_an_idle_worker_is_woken_at_once(app: App, client: Client, ran: list[int], connection) -> None:
    async with running(worker_of(app)) as life:
        await client.add_raw_job("note", {"number": 0})
        await until(lambda: ran == [0], "the first job runs")
        await until(lambda: jobs(connection) == [], "the worker is idle")
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [0, 1], "the second job runs without a poll")

        assert not life.done()


async def test_without_announcements_polling_finds_jobs(app: App, client: Client, ran: list[int]) -> None:
    worker = worker_of(app, use_notification_delivery=False, poll_interval=timedelta(milliseconds=20))
    async with running(worker):
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [1], "the job is found")


async def test_jobs_that_were_added_silently_are_found_by_polling(app: App, client: Client, ran: list[int]) -> None:
    async with running(worker_of(app, poll_interval=timedelta(milliseconds=20))):
        await client.add_raw_job("note", {"number": 1}, notify=False)
        await until(lambda: ran == [1], "the job is found")


async def test_a_future_job_runs_when_it_is_due(app: App, client: Client, ran: list[int]) -> None:
    due_at = datetime.now(UTC) + timedelta(seconds=1)
    async with running(worker_of(app)):
        await client.add_raw_job("note", {"number": 1}, JobSpec(run_at=due_at))
        await until(lambda: ran == [1], "the job runs without waiting for a poll")

    assert due_at <= datetime.now(UTC)


async def test_a_failed_job_is_tried_again_when_it_is_due(app: App, client: Client) -> None:
    attempts = []

    @app.task(retry=lambda attempts, error: timedelta(milliseconds=100))
    async def stubborn() -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise ValueError("not yet")

    async with running(worker_of(app)):
        await client.add_job(stubborn.job())
        await until(lambda: len(attempts) == 3, "the third attempt")


async def test_a_thousand_jobs_of_one_call_do_not_wait_for_polls(app: App, client: Client, ran: list[int]) -> None:
    async with running(worker_of(app)):
        await client.add_raw_jobs(numbered(1000))
        await until(lambda: len(ran) == 1000, "all have run")

    assert sorted(ran) == list(range(1000))


async def test_a_backlog_is_drained_from_the_start(app: App, client: Client, ran: list[int], connection) -> None:
    await client.add_raw_jobs(numbered(100))

    async with running(worker_of(app, use_notification_delivery=False)):
        await until(lambda: jobs(connection) == [], "all are done")

    assert sorted(ran) == list(range(100))


async def test_fifty_jobs_of_one_queue_do_not_wait_for_polls(app: App, client: Client, ran: list[int]) -> None:
    async with running(worker_of(app)):
        await client.add_raw_jobs(numbered(50, queue_name="letters"))
        await until(lambda: len(ran) == 50, "all have run")

    assert ran == list(range(50))


async def test_run_once_runs_and_settles_everything_that_is_due(
    app: App, client: Client, ran: list[int], connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs(numbered(20, queue_name="letters"))
    await client.add_raw_jobs(numbered(50))
    await client.add_raw_job("note", {"number": 99}, JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1)))

    await run_all(app)

    assert len(ran) == 70
    assert only_job(connection).attempts == 0
    assert [queue.locked_at for queue in queues(connection)] == [None]


async def test_run_once_returns_when_nothing_is_there(app: App, database: str) -> None:
    await asyncio.wait_for(run_all(app), 60)


async def test_jobs_of_unknown_tasks_are_left_alone(app: App, client: Client, ran: list[int], connection) -> None:
    await client.add_raw_job("somebody_elses", {})
    await client.add_raw_job("note", {"number": 1})

    await run_all(app)

    left = only_job(connection)
    assert (left.attempts, left.locked_at, left.last_error) == (0, None, None)


async def test_jobs_of_unknown_tasks_do_not_hide_others(app: App, client: Client, ran: list[int]) -> None:
    await client.add_raw_jobs([RawJobSpec("somebody_elses", {}, JobSpec(priority=-1))] * 600)
    await client.add_raw_job("note", {"number": 1})

    await run_all(app, concurrency=1)

    assert ran == [1]


async def test_tasks_that_were_cleaned_away_are_found_again(app: App, client: Client, ran: list[int]) -> None:
    started = asyncio.Event()

    @app.task
    async def begin() -> None:
        started.set()

    async with running(worker_of(app)):
        await client.add_raw_job("begin")
        await asyncio.wait_for(started.wait(), 60)
        # Another client does not know our tasks, and "note" has no jobs.
        cleaned = await client.cleanup([CleanupTask.GC_TASK_IDENTIFIERS])
        assert "note" in cleaned.task_identifiers
        await client.add_raw_job("note", {"number": 1})
        await until(lambda: ran == [1], "the job of the task that has a new number runs")


async def test_a_worker_runs_only_once(app: App, database: str) -> None:
    worker = worker_of(app)
    await worker.run_once()

    with pytest.raises(ConfigurationError, match="has already run"):
        await worker.run()


async def test_no_two_workers_share_an_id(app: App) -> None:
    assert len({worker_of(app).worker_id for _ in range(100)}) == 100


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig(size=10)], ids=["direct", "local queue"])
async def test_a_flood_of_announcements_costs_few_claims_and_hides_no_job(
    app: App,
    client: Client,
    ran: list[int],
    connection: psycopg.Connection,
    *,
    monkeypatch: pytest.MonkeyPatch,
    local_queue: LocalQueueConfig | None,
) -> None:
    claims, claim = 0, Claimer.claim

    async def counted(self: Claimer, *given: Any, **named: Any) -> Any:
        nonlocal claims
        claims += 1
        return await claim(self, *given, **named)

    monkeypatch.setattr(Claimer, "claim", counted)
    async with running(worker_of(app, local_queue=local_queue)):
        await client.add_raw_job("note", {"number": 0})
        await until(lambda: len(ran) == 1, "the worker listens")
        before, begun, announced = claims, time.monotonic(), 0
        while time.monotonic() < begun + 2.0 or announced < 1000:
            connection.execute('notify "jobs:insert", \'{"count": 1}\'')
            announced += 1
            await asyncio.sleep(0)
        seconds = time.monotonic() - begun
        # One that finds nothing looks with a second statement.
        assert claims - before <= 2 * (BURST + PER_SECOND * seconds + 5) < announced

        await client.add_raw_job("note", {"number": 1})
        await until(lambda: len(ran) == 2, "a job that is announced in the flood runs")
