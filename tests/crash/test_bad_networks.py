"""What lies between a worker and its database breaks; the worker goes on by itself."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman.database.retrying import LONGEST_PAUSE_SECONDS, Retrying
from tests.support.network import Fate, Proxy
from tests.support.rhythms import CROWD
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.crash_site import CrashSite

pytestmark = pytest.mark.program


PATIENCE_SECONDS = 2 * math.ceil(CROWD)
"""How long a silent connection is trusted. Drivers know no less, and a busy machine may take its time to answer."""


@pytest.fixture
async def proxy(server: EmbeddedPostgres, site: CrashSite) -> AsyncIterator[Proxy]:
    name = conninfo_to_dict(site.dsn)["dbname"]
    async with Proxy(make_conninfo(server.tcp_dsn, dbname=name)) as opened:
        yield opened
        site.close()


async def test_resets_in_the_middle_of_work_neither_lose_nor_repeat_jobs(site: CrashSite, proxy: Proxy) -> None:
    jobs = await site.add(80, queues=[None, "a", "b"], seconds=0.01)
    site.start(proxy.dsn)
    for done in range(15, 75, 15):
        await until(lambda done=done: len(site.history.jobs("ended")) >= done, f"{done} jobs ended")
        proxy.reset()

    await site.all_done()

    assert sorted(site.history.jobs("started")) == jobs
    site.check()


async def test_jobs_that_were_claimed_over_a_connection_that_broke_are_run(site: CrashSite, proxy: Proxy) -> None:
    """The claim is committed, but its reply never comes."""
    site.open_gate()
    worker = site.start(proxy.dsn)
    await worker.ready()

    proxy.cuts_at = str(site.gate).encode()
    [lost] = await site.add(1, queues=["a"], gate=str(site.gate))

    await site.all_done()
    assert proxy.cuts_at is None
    assert site.history.jobs("started") == [lost]
    assert len(worker.logged("lost_claims_returned", count=1)) == 1
    site.check()


async def test_connections_that_swallow_everything_are_given_up(site: CrashSite, proxy: Proxy) -> None:
    """As behind a firewall that has forgotten them: no error, no answer."""
    await site.add(3, queues=[None, "a"], gate=str(site.gate))
    site.start(proxy.dsn, statement_seconds=PATIENCE_SECONDS)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    proxy.swallow()
    site.open_gate()

    await site.all_done()
    site.check()


async def test_a_slow_network_only_slows_work_down(site: CrashSite, proxy: Proxy) -> None:
    proxy.delay_seconds = 0.05
    jobs = await site.add(12, queues=[None, None, "a"])
    site.start(proxy.dsn, concurrency=10)

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")

    site.check()


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.SWALLOWED, Fate.SWALLOWED_AFTER_LOGIN])
async def test_a_worker_that_cannot_reconnect_for_a_while_goes_on_when_it_can(
    site: CrashSite, proxy: Proxy, fate: Fate
) -> None:
    jobs = await site.add(4, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(proxy.dsn, statement_seconds=PATIENCE_SECONDS, connect_seconds=PATIENCE_SECONDS)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    proxy.new_connections = fate
    proxy.reset()
    site.open_gate()
    await worker.in_trouble("claiming jobs", "completing jobs", "listening for new jobs")
    await until(lambda: proxy.refused >= 6, "it has tried to reconnect again and again")
    proxy.new_connections = Fate.WORK

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    await worker.out_of_trouble()
    site.check()


MANY_TRIES = 40
"""Of three duties. With ever longer pauses, each would wait for minutes by then."""


async def test_a_worker_goes_on_soon_after_a_long_outage(site: CrashSite, proxy: Proxy) -> None:
    """However long it was: pauses between tries must not grow with it, or it would not be back within this test."""
    jobs = await site.add(4, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(proxy.dsn, longest_pause_seconds=0.2)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    proxy.new_connections = Fate.REFUSED
    proxy.reset()
    site.open_gate()
    await worker.in_trouble("claiming jobs", "completing jobs", "listening for new jobs")
    await until(lambda: proxy.refused >= MANY_TRIES, "the outage lasts")
    proxy.new_connections = Fate.WORK

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    warnings = [line["message"] for line in site.history.lines("log", level="WARNING")]
    assert warnings == worker.logged("duty_failed"), "nobody else complains"
    await worker.out_of_trouble()
    site.check()


def test_pauses_between_tries_become_longer_and_are_never_longer_than_ten_seconds() -> None:
    retrying = Retrying("anything", logger=logging.getLogger("ferryman"))
    pauses = [retrying.pause_after(OSError()) for _ in range(50)]
    assert pauses[0] < 1.0 < max(pauses) <= LONGEST_PAUSE_SECONDS == 10.0
    retrying.is_over()
    assert retrying.pause_after(OSError()) < 1.0
