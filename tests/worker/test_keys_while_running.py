"""What happens to a job whose key is used again, or removed, while it runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import JobKeyMode, JobSpec
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

pytestmark = pytest.mark.claims


class Held:
    """A task, `hold`, whose first run waits for an ending; later ones note their text and return."""

    def __init__(self, app: App) -> None:
        self.texts: list[str] = []
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        @app.task
        async def hold(text: str) -> None:
            self.texts.append(text)
            if text == "first":
                await self.end


@pytest.fixture
async def held(app: App) -> Held:
    return Held(app)


def keyed(mode: JobKeyMode = JobKeyMode.REPLACE, **spec: object) -> JobSpec:
    return JobSpec(job_key="mine", job_key_mode=mode, **spec)


@pytest.mark.parametrize("mode", [JobKeyMode.REPLACE, JobKeyMode.PRESERVE_RUN_AT])
async def test_a_key_used_again_while_its_job_runs_makes_another_job(
    app: App, client: Client, connection: psycopg.Connection, held: Held, mode: JobKeyMode
) -> None:
    await client.add_raw_job("hold", {"text": "first"}, keyed())

    async with running(worker_of(app)):
        await until(lambda: held.texts == ["first"], "the first job runs")
        await client.add_raw_job("hold", {"text": "second"}, keyed(mode))
        await until(lambda: held.texts == ["first", "second"], "the second job runs beside it")
        held.end.set_result(None)

    assert jobs(connection) == []


async def test_unsafe_dedupe_adds_nothing_beside_a_running_job(
    app: App, client: Client, connection: psycopg.Connection, held: Held
) -> None:
    first = await client.add_raw_job("hold", {"text": "first"}, keyed())

    async with running(worker_of(app)):
        await until(lambda: held.texts == ["first"], "the first job runs")
        second = await client.add_raw_job("hold", {"text": "second"}, keyed(JobKeyMode.UNSAFE_DEDUPE))
        assert second.id == first.id
        held.end.set_result(None)

    assert (held.texts, jobs(connection)) == (["first"], [])


async def test_a_superseded_job_that_fails_is_not_tried_again(
    app: App, client: Client, connection: psycopg.Connection, held: Held
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    first = await client.add_raw_job("hold", {"text": "first"}, keyed())

    async with running(worker_of(app)):
        await until(lambda: held.texts == ["first"], "the first job runs")
        await client.add_raw_job("hold", {"text": "second"}, keyed(run_at=later))
        held.end.set_exception(ValueError("too late"))

    old, new = jobs(connection)
    assert (old.id, old.key, old.attempts, old.is_available) == (first.id, None, old.max_attempts, False)
    assert (new.key, new.attempts, new.payload) == ("mine", 0, {"text": "second"})


@pytest.mark.parametrize("is_removed", [False, True], ids=["replaced", "removed"])
async def test_a_superseded_job_that_is_interrupted_does_not_come_back(
    app: App, client: Client, connection: psycopg.Connection, held: Held, is_removed: bool
) -> None:
    first = await client.add_raw_job("hold", {"text": "first"}, keyed())

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await until(lambda: held.texts == ["first"], "the first job runs")
        if is_removed:
            await client.remove_job("mine")
        else:
            await client.add_raw_job("hold", {"text": "x"}, keyed(run_at=datetime.now(UTC) + timedelta(hours=1)))

    old = jobs(connection)[0]
    assert (old.id, old.key, old.attempts, old.is_available) == (first.id, None, old.max_attempts, False)


async def test_an_unkeyed_job_interrupted_in_its_last_attempt_does_come_back(
    app: App, client: Client, connection: psycopg.Connection, held: Held
) -> None:
    await client.add_raw_job("hold", {"text": "first"}, JobSpec(max_attempts=1))

    async with running(worker_of(app, shutdown={"grace_period": timedelta()})):
        await until(lambda: held.texts == ["first"], "the job runs")

    assert (only_job(connection).attempts, only_job(connection).is_available) == (0, True)


async def test_a_running_job_whose_key_is_removed_still_finishes(
    app: App, client: Client, connection: psycopg.Connection, held: Held
) -> None:
    await client.add_raw_job("hold", {"text": "first"}, keyed())

    async with running(worker_of(app)):
        await until(lambda: held.texts == ["first"], "the job runs")
        await client.remove_job("mine")
        assert len(jobs(connection)) == 1
        held.end.set_result(None)

    assert jobs(connection) == []


async def test_a_key_used_again_while_its_job_waits_for_a_retry_begins_anew(
    app: App, client: Client, connection: psycopg.Connection, held: Held
) -> None:
    held.end.set_exception(ValueError("not yet"))
    first = await client.add_raw_job("hold", {"text": "first"}, keyed())
    await run_all(app)
    assert only_job(connection).attempts == 1

    await client.add_raw_job("hold", {"text": "second"}, keyed())
    job = only_job(connection)
    assert (job.id, job.attempts, job.last_error, job.payload) == (first.id, 0, None, {"text": "second"})

    await run_all(app)
    assert jobs(connection) == []
