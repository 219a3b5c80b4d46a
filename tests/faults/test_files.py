"""No file descriptor is left for the worker's own connections."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.crash_site import CrashSite
    from tests.support.processes import WorkerProgram

NAME = "the worker"

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
async def test_a_worker_that_may_open_no_file_for_a_while_reconnects_when_it_may(
    site: CrashSite, observer: psycopg.Connection, prefetch: int | None
) -> None:
    """All its connections are cut, and it cannot open others. What ran meanwhile is settled, and nothing runs twice."""
    jobs = await site.add(40, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(make_conninfo(site.dsn, application_name=NAME), faults=None, prefetch=prefetch)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    usual = let_it_open(worker, 3)
    # One that was being opened may come late.
    await until(lambda: cut(observer) == 0, "all connections are cut")
    site.open_gate()
    await worker.in_trouble("listening for new jobs", "completing jobs")
    assert site.jobs() == jobs, "nothing can be written"
    let_it_open(worker, usual)

    await site.all_done()
    await worker.out_of_trouble("listening for new jobs", "completing jobs")
    assert sorted(site.history.jobs("started")) == jobs
    site.check()


def cut(observer: psycopg.Connection) -> int:
    """Cut the worker's connections; how many there were."""
    statement = (
        "select pg_terminate_backend(pid, 60000) from pg_stat_activity"
        " where datname = current_database() and application_name = %s"
    )
    return len(observer.execute(statement, [NAME]).fetchall())


@pytest.fixture
def observer(database: str) -> Iterator[psycopg.Connection]:
    """A connection that is never in a transaction, where pg_stat_activity would show no newcomers."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


def let_it_open(worker: WorkerProgram, most: int) -> int:
    """Change the limit of a running process. Files that are open stay open."""
    soft, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (most, hard))
    return soft
