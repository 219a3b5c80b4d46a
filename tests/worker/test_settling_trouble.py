"""Outcomes are written in the end, whatever the database does meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec, RawJobSpec
from ferryman.errors import DatabaseUnavailableError
from ferryman.hooks import HookRegistry, JobComplete, JobFail, SettleRefused
from ferryman.queries.settle import find_jobs
from ferryman.worker.settling import buffers, writers
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.waiting import end_sessions_that_wait, somebody_waits_for_a_lock, until
from tests.support.workers import MINUTES, jobs, only_job, run_all, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from ferryman import App, Client
    from ferryman.database.steps import Call
    from ferryman.worker.settling.outcomes import Settlement

pytestmark = pytest.mark.claims


def table_check(connection: psycopg.Connection, condition: str) -> None:
    connection.execute(f"alter table graphile_worker._private_jobs add constraint picky check ({condition})")


def trigger(connection: psycopg.Connection, event: str, body: str) -> None:
    connection.execute(
        f"create function refuse() returns trigger language plpgsql as $$ begin {body} end $$;"
        f"create trigger refuse before {event} on graphile_worker._private_jobs for each row execute function refuse()"
    )


def settle_failures(connection: psycopg.Connection) -> None:
    """Let the first three deletions fail, as those of an overloaded server do."""
    connection.execute("create sequence deletions")
    body = "if nextval('public.deletions') <= 3 then raise 'too busy' using errcode = '53200'; end if; return old;"
    trigger(connection, "delete", body)


async def test_a_write_that_fails_is_tried_again_until_it_works(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @app.task
    async def end() -> None:
        calls.append(1)

    settle_failures(connection)
    caplog.set_level("INFO", "ferryman.worker")
    await client.add_raw_job("end")
    await run_all(app)

    assert (calls, jobs(connection)) == ([1], [])
    # The first try went with a claim, which went on without it; the others are the settler's.
    assert len(logged(caplog, "duty_works_again", duty="claiming jobs", count=1)) == 1
    assert [record.event for record in caplog.records if getattr(record, "duty", "") == "completing jobs"] == [
        "duty_failed",
        "duty_works_again",
    ]
    assert len(logged(caplog, "duty_works_again", duty="completing jobs", count=2)) == 1


async def test_a_write_whose_connection_is_cut_is_tried_again(
    app: App, client: Client, connection: psycopg.Connection, observer: psycopg.Connection
) -> None:
    go_on, has_begun = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        has_begun.set()
        await go_on.wait()

    await client.add_raw_job("hold")
    async with running(worker_of(app)):
        await asyncio.wait_for(has_begun.wait(), 60)
        with connection.transaction():
            connection.execute("select from graphile_worker._private_jobs for share")
            go_on.set()
            await until(lambda: somebody_waits_for_a_lock(observer), "the completion waits")
            end_sessions_that_wait(observer)
        await until(lambda: jobs(connection) == [], "the completion is written")


async def test_one_error_that_cannot_be_stored_does_not_hold_up_the_others(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def end(number: int) -> None:
        raise ValueError(f"number {number}!")

    table_check(connection, "last_error not like '%number 7!%'")
    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(20)])
    await run_all(app, concurrency=20, fail_job_batch_delay=timedelta(milliseconds=200))

    errors = {job.payload["number"]: job.last_error for job in jobs(connection)}
    assert "could not be stored" in errors.pop(7)
    assert all(f"number {number}!" in error for number, error in errors.items())
    assert {(job.attempts, job.locked_at) for job in jobs(connection)} == {(1, None)}
    [complaint] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert logged(caplog, "outcome_unstorable") == [complaint]


@pytest.mark.parametrize("state", ["P0001", "23503"], ids=["a trigger's refusal", "a foreign key"])
async def test_one_job_that_cannot_be_deleted_does_not_hold_up_the_others(
    app: App, client: Client, connection: psycopg.Connection, state: str
) -> None:
    refused = []
    hooks = HookRegistry()
    hooks.on(SettleRefused, refused.append)
    completed = []
    hooks.on(JobComplete, completed.append)

    @app.task
    async def end(number: int) -> None:
        pass

    body = f"if (old.payload->>'number')::int = 7 then raise 'kept' using errcode = '{state}'; end if; return old;"
    trigger(connection, "delete", body)
    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(20)])
    await run_all(app, concurrency=20, complete_job_batch_delay=timedelta(milliseconds=200), hooks=hooks)

    job = only_job(connection)
    assert (job.payload, job.attempts, job.locked_at) == ({"number": 7}, 1, None)
    assert (len(completed), refused) == (19, [])


async def test_a_job_that_can_neither_be_deleted_nor_changed_stays_locked_alone(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def end(number: int) -> None:
        pass

    trigger(
        connection,
        "update or delete",
        "if old.locked_at is not null and (old.payload->>'number')::int = 7 then raise 'kept'; end if;"
        "return coalesce(new, old);",
    )
    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(20)])
    await run_all(app)

    assert (only_job(connection).payload, only_job(connection).locked_at is None) == ({"number": 7}, False)
    assert len(logged(caplog, "job_left_locked", job_id=only_job(connection).id)) == 1


async def test_no_more_jobs_are_claimed_while_too_many_outcomes_wait(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.worker.settling.backlog.MOST_UNSETTLED_PER_SLOT", 3)
    ran = []

    @app.task
    async def end(number: int) -> None:
        ran.append(number)

    trigger(connection, "delete", "raise 'too busy' using errcode = '53200';")
    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(50)])
    worker = worker_of(app, concurrency=2)
    async with running(worker):
        await until(lambda: ran != [] and inside(worker).is_claiming_paused, "too many wait")
        await until(lambda: inside(worker).running == [], "those that were claimed have run")
        assert len(ran) <= 2 * 3 + 2
        connection.execute("drop trigger refuse on graphile_worker._private_jobs")
        await until(lambda: jobs(connection) == [], "all are done, without waiting for a poll")

    assert sorted(ran) == list(range(50))


async def test_delays_gather_outcomes_and_the_end_writes_them_at_once(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    ran = []

    @app.task
    async def end(number: int) -> None:
        ran.append(number)
        if number % 2:
            raise ValueError("odd")

    await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(10)])
    worker = worker_of(app, concurrency=10, complete_job_batch_delay=MINUTES, fail_job_batch_delay=MINUTES)
    async with running(worker):
        await until(lambda: len(ran) == 10, "all have run")
        assert {job.locked_by for job in jobs(connection)} == {worker.worker_id}
        assert len(jobs(connection)) == 10

    assert [(job.payload["number"] % 2, job.locked_at, job.attempts) for job in jobs(connection)] == [(1, None, 1)] * 5


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["done", "failed"])
async def test_an_outcome_that_comes_after_the_end_has_begun_is_written_too(
    app: App, client: Client, connection: psycopg.Connection, error: Exception | None
) -> None:
    """However long outcomes would be gathered otherwise."""
    go_on, has_begun = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        has_begun.set()
        await go_on.wait()
        if error is not None:
            raise error

    await client.add_raw_job("hold")
    worker = worker_of(app, complete_job_batch_delay=MINUTES, fail_job_batch_delay=MINUTES)
    async with running(worker):
        await asyncio.wait_for(has_begun.wait(), 60)
        worker.request_shutdown()
        await until(lambda: inside(worker).is_stopping, "the end has begun")
        go_on.set()

    assert [(job.attempts, job.locked_at) for job in jobs(connection)] == ([] if error is None else [(1, None)])


async def test_run_once_does_not_wait_for_the_delays(app: App, client: Client, connection: psycopg.Connection) -> None:
    @app.task
    async def end() -> None:
        pass

    await client.add_raw_job("end", spec=JobSpec(queue_name="letters"))
    await asyncio.wait_for(run_all(app, complete_job_batch_delay=MINUTES), 60)

    assert jobs(connection) == []


async def test_an_outcome_that_meets_an_unexpected_error_is_left_alone_and_the_others_are_written(
    app: App,
    client: Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    give_back = writers.giving_back
    odd: set[int] = set()

    def encode(settlements: Sequence[Settlement]) -> Call:
        if any(each.claim.job_id in odd for each in settlements):
            raise RuntimeError("an error that nobody has thought of")
        return give_back(settlements)

    monkeypatch.setattr(writers, "giving_back", encode)

    @app.task
    async def end(number: int) -> None:
        raise ValueError("again")

    added = await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(8)])
    odd.add(added[5].id)
    worker = worker_of(app, concurrency=8, fail_job_batch_delay=timedelta(milliseconds=100))
    async with running(worker):
        await until(lambda: [job.id for job in jobs(connection) if job.locked_by] == [*odd], "the others are written")
        await until(lambda: logged(caplog, "job_left_locked", job_id=added[5].id), "it is left alone")
        odd.clear()
        more = await client.add_raw_job("end", {"number": 8})
        await until(lambda: jobs(connection)[-1].last_error, "settling goes on")
        assert (jobs(connection)[-1].id, jobs(connection)[-1].locked_by) == (more.id, None)


async def test_a_buffer_that_dies_is_noticed_at_once_and_started_again(
    app: App,
    client: Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gather, errors = buffers.OutcomeBuffer._gather, [RuntimeError("an error that nobody has thought of")]

    async def fail_once(self: buffers.OutcomeBuffer) -> None:
        if errors:
            raise errors.pop()
        await gather(self)

    monkeypatch.setattr(buffers.OutcomeBuffer, "_gather", fail_once)

    @app.task
    async def end() -> None:
        raise ValueError("again")

    async with running(worker_of(app)):
        await client.add_raw_job("end")
        await until(lambda: only_job(connection).last_error, "the outcome is written")
        assert len(logged(caplog, "duty_ended", duty="giving jobs back")) == 1
    assert only_job(connection).locked_by is None


async def test_a_failure_is_reported_as_written_although_the_question_after_it_fails(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two jobs one was lost. Who owns it is asked after the other was written, which somebody claims at once."""
    hooks, told, refused = HookRegistry(), [], []
    hooks.on(JobFail, lambda event: told.append(event.job.id))
    hooks.on(SettleRefused, lambda event: refused.append(event.job_id))
    failures, go_on = [1, 1], asyncio.Event()

    def find_or_fail(job_ids: Sequence[int]) -> Call:
        if failures:
            failures.pop()
            connection.execute("update graphile_worker._private_jobs set locked_by = 'another', locked_at = now()")
            raise DatabaseUnavailableError("the connection is lost")
        return find_jobs(job_ids)

    monkeypatch.setattr(writers, "find_jobs", find_or_fail)

    @app.task
    async def end(number: int) -> None:
        await go_on.wait()
        raise ValueError("again")

    mine, lost = await client.add_raw_jobs([RawJobSpec("end", {"number": number}) for number in range(2)])
    worker = worker_of(app, hooks=hooks, fail_job_batch_delay=timedelta(milliseconds=100))
    async with running(worker):
        await until(lambda: inside(worker).is_alive and len(inside(worker).running) == 2, "both run")
        connection.execute("update graphile_worker._private_jobs set locked_by = 'another' where id = %s", [lost.id])
        go_on.set()
        await until(lambda: refused, "the lost one is refused")

    assert (told, refused, failures) == ([mine.id], [lost.id], [])
