"""What lies between a worker and its database breaks; the worker goes on by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.proxy import Fate, Proxy
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.crash_site import Scene


@pytest.fixture
async def proxy(server: EmbeddedPostgres, scene: Scene) -> AsyncIterator[Proxy]:
    name = conninfo_to_dict(scene.dsn)["dbname"]
    async with Proxy(make_conninfo(server.tcp_dsn, dbname=name)) as opened:
        yield opened
        scene.close()


async def test_resets_in_the_middle_of_work_neither_lose_nor_repeat_jobs(scene: Scene, proxy: Proxy) -> None:
    jobs = await scene.add(80, queues=[None, "a", "b"], seconds=0.01)
    scene.start(proxy.dsn)
    for done in range(15, 75, 15):
        await until(lambda done=done: len(scene.history.jobs("ended")) >= done, f"{done} jobs ended")
        proxy.reset()

    await scene.all_done()

    assert sorted(scene.history.jobs("started")) == jobs
    scene.check()


async def test_jobs_that_were_claimed_over_a_connection_that_broke_are_run(scene: Scene, proxy: Proxy) -> None:
    """The claim is committed, but its reply never comes."""
    scene.open_gate()
    worker = scene.start(proxy.dsn)
    await worker.ready()

    proxy.cuts_at = str(scene.gate).encode()
    [lost] = await scene.add(1, queues=["a"], gate=str(scene.gate))

    await scene.all_done()
    assert proxy.cuts_at is None
    assert scene.history.jobs("started") == [lost]
    assert len(worker.said("claimed over a connection that broke")) == 1
    scene.check()


async def test_connections_that_swallow_everything_are_given_up(scene: Scene, proxy: Proxy) -> None:
    """As behind a firewall that has forgotten them: no error, no answer."""
    await scene.add(3, queues=[None, "a"], gate=str(scene.gate))
    scene.start(proxy.dsn, statement_seconds=1.0)
    await until(lambda: len(scene.history.jobs("started")) >= 2, "jobs run")

    proxy.swallow()
    scene.open_gate()

    await scene.all_done()
    scene.check()


async def test_a_slow_network_only_slows_work_down(scene: Scene, proxy: Proxy) -> None:
    proxy.delay_seconds = 0.05
    jobs = await scene.add(12, queues=[None, None, "a"])
    scene.start(proxy.dsn, concurrency=10)

    await until(lambda: sorted(scene.history.jobs("settled")) == jobs, "all jobs are settled")

    scene.check()


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.SWALLOWED, Fate.SWALLOWED_AFTER_LOGIN])
async def test_a_worker_that_cannot_reconnect_for_a_while_goes_on_when_it_can(
    scene: Scene, proxy: Proxy, fate: Fate
) -> None:
    jobs = await scene.add(4, queues=[None, "a"], gate=str(scene.gate))
    worker = scene.start(proxy.dsn, statement_seconds=3.0, connect_seconds=3)
    await until(lambda: len(scene.history.jobs("started")) >= 2, "jobs run")

    proxy.new_connections = fate
    proxy.reset()
    scene.open_gate()
    await worker.in_trouble("claiming jobs", "completing jobs", "listening for new jobs")
    await until(lambda: proxy.refused >= 6, "it has tried to reconnect again and again")
    proxy.new_connections = Fate.WORK

    await until(lambda: sorted(scene.history.jobs("settled")) == jobs, "all jobs are settled")
    await worker.out_of_trouble()
    scene.check()


async def test_a_worker_goes_on_soon_after_a_long_outage(scene: Scene, proxy: Proxy) -> None:
    """However long it was: pauses between tries must not grow with it."""
    jobs = await scene.add(4, queues=[None, "a"], gate=str(scene.gate))
    worker = scene.start(proxy.dsn)
    await until(lambda: len(scene.history.jobs("started")) >= 2, "jobs run")

    proxy.new_connections = Fate.REFUSED
    proxy.reset()
    scene.open_gate()
    await worker.in_trouble("claiming jobs", "completing jobs", "listening for new jobs")
    await until(lambda: proxy.refused >= 15, "the outage lasts")
    proxy.new_connections = Fate.WORK
    back_at = time.monotonic()

    await until(lambda: sorted(scene.history.jobs("settled")) == jobs, "all jobs are settled")
    assert time.monotonic() - back_at < 15
    warnings = [line["message"] for line in scene.history.lines("log", level="WARNING")]
    assert warnings == worker.said("will be tried again"), "nobody else complains"
    await worker.out_of_trouble()
    scene.check()
