"""The cheapest claim: when it is made, and what need not be asked after it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import CleanupTask, JobSpec, RawJobSpec, Retry, WorkerContext
from ferryman.database.timed import TimedDatabase
from ferryman.hooks import HookRegistry, JobComplete
from ferryman.worker.claiming import search
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.identity import Identity
from tests.support.waiting import until
from tests.support.workers import run_all, running, worker_of

if TYPE_CHECKING:
    from ferryman import App, Client
    from ferryman.database.steps import Call

pytestmark = pytest.mark.claims

HOUR = timedelta(hours=1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The claims that were answered, by the names of their statements."""
    names: list[str] = []
    fetch = TimedDatabase.fetch

    async def note(self: TimedDatabase, call: Call):
        rows = await fetch(self, call)
        if call.statement.name.startswith("claim"):
            names.append(call.statement.name)
        return rows

    monkeypatch.setattr(TimedDatabase, "fetch", note)
    return names


async def _is_idle(sent: list[str]) -> None:
    """Come back when a worker that has just started has looked for what may have been announced before, in vain."""
    await until(lambda: "claim_plain_jobs" in sent and sent[-1] == "claim_jobs", "the worker has looked around")


async def test_a_job_that_comes_alone_costs_one_claim(
    app: App, client: Client, ran: list[int], sent: list[str]
) -> None:
    hooks, done = HookRegistry(), []
    hooks.on(JobComplete, lambda event: done.append(event.job.id))
    async with running(worker_of(app, poll_interval=HOUR, hooks=hooks)):
        await _is_idle(sent)
        del sent[:]
        for number in range(3):
            await client.add_raw_job("note", {"number": number})
            await until(lambda number=number: len(done) == number + 1, "it is completed")

    assert ran == [0, 1, 2]
    assert sent == ["claim_plain_jobs"] * 3


async def test_a_due_time_in_the_future_is_known_from_the_claim_of_another_job(
    app: App, client: Client, ran: list[int], sent: list[str]
) -> None:
    async with running(worker_of(app, poll_interval=HOUR)):
        await _is_idle(sent)
        soon = JobSpec(run_at=datetime.now(UTC) + timedelta(seconds=1))
        now = JobSpec(priority=-1)  # first, even if it takes a second to add them
        await client.add_raw_jobs([RawJobSpec("note", {"number": 1}, soon), RawJobSpec("note", {"number": 0}, now)])
        await until(lambda: ran == [0, 1], "both run, the second one when it is due")


async def test_jobs_with_queues_are_claimed_in_the_other_way(
    app: App, client: Client, ran: list[int], sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS_OF_LOOKING_FURTHER", 3600.0)
    async with running(worker_of(app, poll_interval=HOUR)):
        await _is_idle(sent)
        del sent[:]
        await client.add_raw_jobs(
            [RawJobSpec("note", {"number": number}, JobSpec(queue_name="letters")) for number in range(3)]
        )
        await until(lambda: ran == [0, 1, 2], "all run, one after the other")

    assert sent[:2] == ["claim_plain_jobs", "claim_jobs"]
    assert sent.count("claim_plain_jobs") == 1


async def test_slots_that_were_all_taken_ask_for_more_when_one_is_free(
    app: App, client: Client, ran: list[int], sent: list[str]
) -> None:
    await client.add_raw_jobs([RawJobSpec("note", {"number": number}) for number in range(50)])

    async with running(worker_of(app, concurrency=2, poll_interval=HOUR)):
        await until(lambda: len(ran) == 50, "all run")

    assert sent.count("claim_jobs") <= 3


async def test_run_once_runs_a_job_to_its_end_that_failed_meanwhile_and_is_due_again(app: App, client: Client) -> None:
    attempts = []

    @app.task
    async def reluctant() -> None:
        attempts.append("begun")
        if len(attempts) == 1:
            raise Retry(after=timedelta(0))
        for _ in range(50):
            await asyncio.sleep(0)
        attempts.append("ended")

    await client.add_raw_job("reluctant")
    await run_all(app, concurrency=5, shutdown={"grace_period": timedelta()})

    assert attempts == ["begun", "begun", "ended"]
    assert (await client.counts()).total == 0


async def test_a_function_for_flags_is_asked_again_when_a_job_has_ended(
    app: App, client: Client, ran: list[int], sent: list[str]
) -> None:
    """It may forbid a flag for as long as another job runs."""
    is_busy, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def keep_busy() -> None:
        is_busy.set()
        await may_end.wait()
        is_busy.clear()

    forbidden = {True: ["narrow"], False: []}
    async with running(worker_of(app, poll_interval=HOUR, forbidden_flags=lambda: forbidden[is_busy.is_set()])):
        await _is_idle(sent)
        await client.add_raw_job("keep_busy")
        await is_busy.wait()
        await client.add_raw_job("note", {"number": 1}, JobSpec(flags=["narrow"]))
        await until(lambda: sent[-1] == "claim_jobs", "it is left alone")
        assert ran == []
        may_end.set()
        await until(lambda: ran == [1], "it runs")


async def test_without_announcements_a_slot_that_ends_looks_for_what_its_job_may_have_added(
    app: App, client: Client, ran: list[int]
) -> None:
    @app.task
    async def go_on(left: int, ctx: WorkerContext) -> None:
        await ctx.client.add_raw_job(*(("go_on", {"left": left - 1}) if left else ("note", {"number": 1})))

    await client.add_raw_job("go_on", {"left": 25})
    async with running(worker_of(app, poll_interval=HOUR, use_notification_delivery=False)):
        await until(lambda: ran == [1], "the last of them runs without a poll")


async def test_tasks_that_were_cleaned_away_are_noticed_although_others_keep_the_worker_busy(
    app: App, client: Client, ran: list[int]
) -> None:
    busy: list[int] = []

    @app.task
    async def keep_busy(number: int) -> None:
        busy.append(number)

    async with running(worker_of(app, poll_interval=HOUR)):
        await client.add_raw_job("keep_busy", {"number": 0})
        await until(lambda: busy == [0], "the worker works")
        cleaned = await client.cleanup([CleanupTask.GC_TASK_IDENTIFIERS])
        assert "note" in cleaned.task_identifiers
        await client.add_raw_jobs([RawJobSpec("note", {"number": 1}), RawJobSpec("keep_busy", {"number": 1})])
        await until(lambda: ran == [1], "the job whose task has a new number runs, though it was never alone")


async def test_an_urgent_job_of_a_task_that_was_cleaned_away_does_not_wait_until_all_others_are_done(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that finds jobs does not say whether all tasks still exist, so their numbers are read now and then."""
    connection = TimedDatabase(client.pool, client.schema)
    claimer = Claimer(connection, Identity(), ["bulk", "urgent"], forbidden_flags=(), use_local_time=False)
    await claimer.register()
    await client.add_raw_jobs([RawJobSpec("bulk", {})] * 3)
    assert (await client.cleanup([CleanupTask.GC_TASK_IDENTIFIERS])).task_identifiers == ("urgent",)
    urgent = await client.add_raw_job("urgent", {}, JobSpec(priority=-100))

    [before] = (await claimer.claim(1)).claims
    monkeypatch.setattr("ferryman.worker.claiming.claimer.SECONDS_BETWEEN_REGISTRATIONS", 0.0)
    [after] = (await claimer.claim(1)).claims

    assert (before.job_id == urgent.id, after.job_id) == (False, urgent.id)


async def test_jobs_that_somebody_else_had_locked_are_looked_for_again(
    app: App, client: Client, ran: list[int], sent: list[str], database: str
) -> None:
    async with running(worker_of(app, poll_interval=HOUR)):
        await _is_idle(sent)
        del sent[:]
        with psycopg.connect(database) as other:
            [left, _] = await _add_unannounced(client, 2)
            other.execute("select from graphile_worker._private_jobs where id = %s for update", [left])
            await client.add_raw_job("note", {"number": 9})
            await until(lambda: sorted(ran) == [1, 9], "the others run")
            await until(lambda: len(sent) >= 2, "the worker looks again")

    assert sent[:2] == ["claim_plain_jobs", "claim_jobs"]


async def _add_unannounced(client: Client, count: int) -> list[int]:
    specs = [RawJobSpec("note", {"number": number}) for number in range(count)]
    return [job.id for job in await client.add_raw_jobs(specs, notify=False)]
