"""A worker that may have been declared dead starts no job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ferryman import App, LocalQueueConfig, WorkerContext
from ferryman.hooks import HookRegistry, SettleRefused
from tests.support.beats import over_tcp
from tests.support.fleet import idle_app
from tests.support.inside import inside
from tests.support.network import Fate, Proxy
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.fleet import Fleet

JOBS = 5
TRIES = 3
"""After this many more failed attempts to reach the database, a worker that would start a job has done so."""


@pytest.mark.parametrize("is_swept", [False, True], ids=["not swept", "swept"])
async def test_while_no_beat_is_confirmed_nothing_is_started_from_the_local_queue(
    fleet: Fleet, server: EmbeddedPostgres, is_swept: bool
) -> None:
    async with Proxy(over_tcp(server, fleet.dsn)) as network:
        app, hooks = App(network.dsn), HookRegistry()
        started: list[tuple[int, str]] = []
        refused: list[int] = []
        gate = asyncio.Event()

        @app.task
        async def wait(ctx: WorkerContext) -> None:
            started.append((ctx.job.id, ctx.worker_id))
            await gate.wait()

        @hooks.on(SettleRefused)
        def note(event: SettleRefused) -> None:
            refused.append(event.job_id)

        jobs = await fleet.add("wait", count=JOBS)
        worker = worker_of(
            app, concurrency=1, local_queue=LocalQueueConfig(size=JOBS), recovery=recovery_of(), hooks=hooks
        )
        async with running(worker):
            first_id = worker.worker_id
            await until(lambda: bool(started), "the first job runs")
            assert {job.locked_by for job in fleet.jobs()} == {first_id}
            network.new_connections = Fate.REFUSED
            network.reset()
            await until(lambda: inside(worker).may_be_dead, "the worker fences itself")
            gate.set()
            if is_swept:
                async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of(PATIENT))):
                    await fleet.until_swept(first_id)
            refusals = network.refused
            await until(lambda: network.refused >= refusals + TRIES, "it tries to come back")
            assert started == [(jobs[0], first_id)]

            network.new_connections = Fate.WORK
            await fleet.until_gone(*jobs)
            assert (worker.worker_id != first_id) == is_swept
            assert [job for job, _ in started] == ([jobs[0], *jobs] if is_swept else jobs)
            assert {worker_id for _, worker_id in started[1:]} == {worker.worker_id}
            if is_swept:
                await until(lambda: set(refused) == {*jobs}, "all that was taken away is refused")
            else:
                assert refused == []
