"""PostgreSQL is there and says no: read-only, full, impatient, strict. The worker goes on by itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import Client, JobSpec
from tests.support.rhythms import CROWD
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.crash_site import CrashSite

pytestmark = pytest.mark.program

JOBS = "graphile_worker._private_jobs"


class Role:
    """The role of the workers alone: what is set for it does not hurt the test."""

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self.name = f"worker_{os.getpid()}"
        self.dsn = make_conninfo(dsn, user=self.name, password="known")
        self._connection = connection
        connection.execute(f"create role {self.name} login password 'known'")
        connection.execute(f"grant {connection.info.user} to {self.name}")

    def alter(self, change: str) -> None:
        """Change what holds for new connections."""
        self._connection.execute(f"alter role {self.name} {change}")

    def cut(self) -> None:
        """Terminate all connections."""
        self._connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", [self.name]
        )

    def sessions(self) -> set[int]:
        """The processes of the server for its connections."""
        rows = self._connection.execute("select pid from pg_stat_activity where usename = %s", [self.name]).fetchall()
        return {pid for (pid,) in rows}

    def drop(self) -> None:
        self.cut()
        self._connection.execute(f"drop role {self.name}")


@pytest.fixture
def role(site: CrashSite, connection: psycopg.Connection) -> Iterator[Role]:
    made = Role(site.dsn, connection)
    yield made
    site.close()
    made.drop()


async def test_a_server_that_was_read_only_for_a_while_is_written_to_again(site: CrashSite, role: Role) -> None:
    """As after a failover that was undone: connections made meanwhile would stay read-only for ever."""
    jobs = await site.add(6, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(role.dsn)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    role.alter("set default_transaction_read_only = on")
    role.cut()
    site.open_gate()
    await worker.in_trouble("completing jobs")
    await worker.in_trouble("claiming jobs")
    role.alter("reset default_transaction_read_only")

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    await worker.out_of_trouble("completing jobs", "claiming jobs")
    site.check()


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
async def test_statements_that_may_not_take_long_are_tried_again(
    site: CrashSite, role: Role, connection: psycopg.Connection, limit: str
) -> None:
    role.alter(f"set {limit} = '{2 * CROWD:.0f}s'")  # nothing else takes as long
    jobs = await site.add(6, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(role.dsn)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    with connection.transaction():
        connection.execute(f"lock table {JOBS}")
        site.open_gate()
        await worker.in_trouble("completing jobs")
        await worker.in_trouble("claiming jobs")

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    await worker.out_of_trouble("completing jobs", "claiming jobs")
    site.check()


async def test_a_table_that_is_rewritten_is_waited_for_without_a_word(
    site: CrashSite, connection: psycopg.Connection
) -> None:
    jobs = await site.add(6, queues=[None, "a"], gate=str(site.gate))
    worker = site.start()
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    with connection.transaction(), psycopg.connect(site.dsn, autocommit=True) as observer:
        connection.execute(f"lock table {JOBS}")
        site.open_gate()
        await until(lambda: somebody_waits_for_a_lock(observer), "the worker waits")

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    assert worker.failures == []
    site.check()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_workers_share_jobs_whatever_the_default_isolation(site: CrashSite, role: Role, isolation: str) -> None:
    role.alter(f"set default_transaction_isolation = '{isolation}'")
    jobs = await site.add(150, queues=[None, None, "a", "b", "c"])
    workers = [site.start(role.dsn), site.start(role.dsn, prefetch=10)]

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")

    await site.all_done()
    assert [worker.failures for worker in workers] == [[], []]
    site.check()


async def test_a_settlement_gives_way_to_a_producer_of_the_same_keys_in_the_other_order(
    site: CrashSite, role: Role, connection: psycopg.Connection
) -> None:
    """The producer holds the later job and wants the earlier one; the settlement, the other way round."""
    async with Client(site.dsn) as client:
        for key in ("first", "second"):
            job = await client.add_raw_job("work", {"gate": str(site.gate)}, JobSpec(job_key=key))
            site.history.note("added", job=job.id)
    worker = site.start(role.dsn, gather_seconds=2)
    await until(lambda: len(site.history.jobs("started")) == 2, "both jobs run")
    jobs = sorted(site.history.jobs("started"))

    with connection.transaction():
        connection.execute("select graphile_worker.add_job('never', job_key => 'second')")
        site.open_gate()
        connection.execute("select graphile_worker.add_job('never', job_key => 'first')")

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "both jobs are settled")
    assert not worker.logged("duty_failed")
    site.check()


async def test_a_server_without_free_connections_is_asked_until_it_has_some(site: CrashSite, role: Role) -> None:
    jobs = await site.add(6, queues=[None, "a"], gate=str(site.gate))
    worker = site.start(role.dsn)
    await until(lambda: len(site.history.jobs("started")) >= 2, "jobs run")

    role.alter("connection limit 0")
    role.cut()
    site.open_gate()
    await worker.in_trouble("listening for new jobs", "completing jobs")
    role.alter("connection limit -1")

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    await worker.out_of_trouble()
    site.check()


async def test_a_server_that_hangs_up_on_idle_connections_is_called_again(site: CrashSite, role: Role) -> None:
    role.alter("set idle_session_timeout = '200ms'")
    site.start(role.dsn, poll_seconds=600)
    for count in range(1, 4):
        await site.add(1)
        await until(lambda count=count: len(site.history.jobs("settled")) == count, "the job is done")
        idle = role.sessions()
        await until(lambda idle=idle: not idle & role.sessions(), "the server hangs up")
    site.check()
