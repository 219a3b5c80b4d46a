"""A worker that has run enough jobs, or has grown too large, takes no more jobs, finishes its own, and ends."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import RawJobSpec, WorkerOptions
from ferryman.errors import ConfigurationError
from ferryman.worker import LocalQueueConfig, parts
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.duties import recycling
from ferryman.worker.identity import Identity
from ferryman.worker.memory import resident_bytes
from ferryman.worker.settling.outcomes import Completed
from tests.support.logs import logged
from tests.support.waiting import until
from tests.support.workers import jobs, run_all, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

MEGABYTES = 1024 * 1024


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig(size=10)], ids=["direct", "local queue"])
async def test_a_worker_ends_after_so_many_jobs_and_leaves_the_others(
    app: App,
    client: Client,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    local_queue: LocalQueueConfig | None,
) -> None:
    caplog.set_level(logging.INFO)
    ran = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0)

    await client.add_raw_jobs([RawJobSpec("work", {"number": number}) for number in range(200)])
    worker = worker_of(app, concurrency=1, max_jobs=3, local_queue=local_queue)

    await worker.run()

    assert len(ran) == 3, "one at a time, so that the fourth had not begun"
    assert ([job.payload["number"] for job in jobs(connection)], ran) == (
        [number for number in range(200) if number not in ran],
        [*range(len(ran))],
    )
    assert [job.locked_by for job in jobs(connection) if job.locked_by] == []
    assert worker.recycled_because == "it has run 3 jobs, as many as max_jobs says"
    [told] = logged(caplog, "worker_recycled")
    assert told.worker_id == worker.worker_id


async def test_jobs_that_run_when_a_worker_is_recycled_are_finished_however_long_they_take(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    may_end = asyncio.Event()

    @app.task
    async def hold() -> None:
        await may_end.wait()

    @app.task
    async def work() -> None: ...

    await client.add_raw_jobs([RawJobSpec("hold", {}), RawJobSpec("work", {})])
    running = asyncio.create_task(worker_of(app, max_jobs=1, shutdown_grace_period=timedelta()).run())
    await until(lambda: bool(logged(caplog, "worker_recycled")), "the worker takes no more jobs")
    await client.add_raw_job("work")
    assert not running.done(), "without any grace, the running job would have been cancelled by now"

    may_end.set()
    await running

    assert [(job.attempts, job.locked_by) for job in jobs(connection)] == [(0, None)], "the one that came too late"


async def test_a_recycled_worker_that_is_told_to_stop_gives_its_jobs_the_grace_period_and_no_more(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @app.task
    async def hold() -> None:
        await asyncio.Event().wait()

    @app.task
    async def work() -> None: ...

    await client.add_raw_jobs([RawJobSpec("hold", {}), RawJobSpec("work", {})])
    worker = worker_of(app, max_jobs=1, shutdown_grace_period=timedelta())
    running = asyncio.create_task(worker.run())
    await until(lambda: bool(logged(caplog, "worker_recycled")), "the worker takes no more jobs")

    worker.request_shutdown()
    await running

    [held] = jobs(connection)
    assert (held.attempts, held.last_error) == (0, "Job recovered after worker interruption")


async def test_a_worker_that_uses_more_memory_than_it_may_ends_after_the_job_that_runs(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recycling, "SECONDS_BETWEEN_LOOKS", 0.05)
    ran = []

    @app.task
    async def work() -> None:
        ran.append(1)

    worker = worker_of(app, max_memory=16 * MEGABYTES)
    assert resident_bytes() > 16 * MEGABYTES
    await client.add_raw_job("work")

    await worker.run()

    assert ran == [1]
    assert "more than the 16 MiB of max_memory" in worker.recycled_because


async def test_a_worker_that_uses_too_much_memory_from_the_start_runs_a_job_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recycling, "SECONDS_BETWEEN_LOOKS", 0.0)
    reasons: list[str] = []

    async def attempt(*_: object) -> Completed:
        return Completed(0.0)

    stop: Any = SimpleNamespace(begun=asyncio.Event(), retire=reasons.append)
    made = recycling.Recycling(Identity(), stop, max_jobs=None, max_memory=1)
    watching = asyncio.create_task(made.watch())
    for _ in range(10):
        await asyncio.sleep(0)  # with no time between them, it looks at each turn of the loop
    assert reasons == []

    await made.counted(attempt)(Claim(1, 1, "{}", None, 5, "me", (), 0), lambda: 0)
    await until(lambda: bool(reasons), "it is to be replaced")
    watching.cancel()


async def test_the_limits_of_child_processes_are_those_of_the_worker(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    class Pool(parts.ChildPool):
        def __init__(self, size: int, **limits: int | None) -> None:
            given.append((size, limits))
            super().__init__(size, **limits)

    monkeypatch.setattr(parts, "ChildPool", Pool)
    await run_all(app, concurrency=3, child_max_jobs=7, child_max_memory=512 * MEGABYTES)
    assert given == [(3, {"max_jobs": 7, "max_memory": 512 * MEGABYTES})]


@pytest.mark.parametrize(("name", "limit"), [("max_jobs", 0), ("child_max_jobs", 0), ("max_memory", 512)])
def test_limits_that_nothing_could_keep_are_refused(name: str, limit: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be at least"):
        WorkerOptions(**{name: limit})
