"""The database has done what it was asked, and the answer never came."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman import App, Client, JobSpec, LocalQueueConfig, RawJobSpec
from ferryman.database.pools import AsyncPool
from ferryman.database.timed import TimedDatabase
from ferryman.errors import DatabaseError, DatabaseUnavailableError, NotConnectedError
from ferryman.hooks import HookRegistry, JobComplete, JobFail, SettleRefused, WorkerStart
from ferryman.queries.claim import return_lost_claims
from ferryman.retries import FixedDelay
from ferryman.worker.claiming import lost_replies
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.identity import Identity
from tests.support.network import Proxy
from tests.support.waiting import until
from tests.support.workers import jobs, queues, running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import datetime

    import psycopg

    from ferryman import Worker
    from ferryman.database.steps import Call, Row
    from ferryman.embedded import EmbeddedPostgres
    from ferryman.worker.claiming.claims import Claim

pytestmark = pytest.mark.claims


@pytest.fixture
async def proxy(server: EmbeddedPostgres, database: str) -> AsyncIterator[Proxy]:
    async with Proxy(make_conninfo(server.tcp_dsn, dbname=conninfo_to_dict(database)["dbname"])) as opened:
        yield opened


def one_by_one(app: App, **given: Any) -> Worker:
    """A worker with one connection, so that it is known what is under way when replies are lost."""
    return worker_of(app, concurrency=1, max_connections=1, **given)


@asynccontextmanager
async def running_once(worker: Worker) -> AsyncIterator[None]:
    """The worker at work, with no other duties than jobs; it ends when they are done."""
    life = asyncio.create_task(worker.run_once())
    yield
    await life


@pytest.mark.parametrize(("error", "event"), [(None, "JobComplete"), (ValueError("no"), "JobFail")])
async def test_an_outcome_that_was_written_is_not_told_as_refused(
    client: Client, connection: psycopg.Connection, proxy: Proxy, error: Exception | None, event: str
) -> None:
    told: list[str] = []
    hooks = HookRegistry()
    for kind in (JobComplete, JobFail, SettleRefused):
        hooks.on(kind, lambda event: told.append(type(event).__name__))
    app = App(proxy.dsn)

    @app.task(retry=FixedDelay(3600.0))
    async def work() -> None:
        proxy.passes_replies = False
        if error is not None:
            raise error

    await client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with running_once(one_by_one(app, hooks=hooks)):
        await until(lambda: all(job.locked_at is None and job.attempts for job in jobs(connection)), "it is written")
        proxy.passes_replies = True
        proxy.reset()
        await until(lambda: bool(told), "the worker has found out")

    assert told == [event]
    assert queues(connection)[0].locked_at is None


async def test_an_outcome_that_was_refused_is_told_as_refused_also_the_second_time(
    client: Client, connection: psycopg.Connection, observer: psycopg.Connection, proxy: Proxy
) -> None:
    told: list[str] = []
    hooks = HookRegistry()
    for kind in (JobComplete, SettleRefused):
        hooks.on(kind, lambda event: told.append(type(event).__name__))
    app = App(proxy.dsn)

    ended: list[datetime] = []

    @app.task
    async def work() -> None:
        connection.execute("update graphile_worker._private_jobs set locked_by = 'another'")
        proxy.passes_replies = False
        ended.extend(*connection.execute("select clock_timestamp()"))

    await client.add_job(work.job())
    async with running_once(one_by_one(app, hooks=hooks)):
        await until(lambda: bool(ended) and _has_settled(observer, ended[0]), "the settlement was carried out")
        proxy.passes_replies = True
        proxy.reset()
        await until(lambda: bool(told), "the worker has found out")

    assert told == ["SettleRefused"]
    assert jobs(connection)[0].locked_by == "another"


async def test_a_claim_whose_reply_is_lost_as_the_worker_stops_is_given_back(
    client: Client, connection: psycopg.Connection, proxy: Proxy
) -> None:
    app, hooks = App(proxy.dsn), HookRegistry()
    worker = one_by_one(app, hooks=hooks)

    @app.task
    async def work() -> None: ...

    @hooks.on(WorkerStart)
    def lose_replies(_: WorkerStart) -> None:
        proxy.passes_replies = False

    await client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with running_once(worker):
        await until(lambda: jobs(connection)[0].locked_by == worker.worker_id, "it is claimed")
        worker.request_shutdown()
        proxy.passes_replies = True
        proxy.reset()

    assert (jobs(connection)[0].locked_by, jobs(connection)[0].attempts) == (None, 0)
    assert queues(connection)[0].locked_at is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(monotonic=lambda: made.now, now=1000.0)
    monkeypatch.setattr(lost_replies, "time", made)
    return made


@dataclass
class Claiming:
    """A claimer behind a bad network."""

    claimer: Claimer
    known: list[Claim]
    worker_id: str

    async def claim(self, wanted: int = 1) -> list[int]:
        claims = (await self.claimer.claim(wanted)).claims
        self.known += claims
        return [claim.job_id for claim in claims]

    async def lose_a_reply(self, proxy: Proxy, is_claimed: Callable[[], bool]) -> None:
        proxy.passes_replies = False
        claiming = asyncio.create_task(self.claimer.claim(1))
        await until(is_claimed, "a job is claimed")
        proxy.passes_replies = True
        proxy.reset()
        with pytest.raises(DatabaseUnavailableError):
            await claiming


@pytest.fixture
async def claiming(proxy: Proxy) -> AsyncIterator[Claiming]:
    known: list[Claim] = []
    async with Client(proxy.dsn, max_connections=1) as client:
        connection, identity = TimedDatabase(client.pool, client.schema), Identity()
        claimer = Claimer(connection, identity, ["work"], forbidden_flags=(), use_local_time=False, known=lambda: known)
        await claimer.register()
        yield Claiming(claimer, known, identity.id)


async def _add(client: Client, *specs: JobSpec) -> list[int]:
    return [job.id for job in await client.add_raw_jobs([RawJobSpec("work", {}, spec) for spec in specs])]


@pytest.mark.usefixtures("clock")
async def test_a_queue_is_freed_when_the_replies_of_its_settlement_and_of_the_next_claim_are_both_lost(
    client: Client, connection: psycopg.Connection, proxy: Proxy, claiming: Claiming
) -> None:
    """The worker still takes the first job, and so the queue, for its own."""
    first, second = await _add(client, JobSpec(queue_name="letters"), JobSpec(queue_name="letters"))
    assert await claiming.claim(2) == [first]
    connection.execute("delete from graphile_worker._private_jobs where id = %s", [first])
    connection.execute("update graphile_worker._private_job_queues set locked_by = null, locked_at = null")
    await claiming.lose_a_reply(proxy, lambda: jobs(connection)[0].locked_at is not None)

    assert await claiming.claim() == [second]


async def test_a_claim_that_is_carried_out_late_is_found_behind_newer_ones(
    client: Client, connection: psycopg.Connection, proxy: Proxy, claiming: Claiming, clock: SimpleNamespace
) -> None:
    """A request may lie in the network while the worker has long begun to claim over another connection."""
    first, second, third = await _add(client, JobSpec(), JobSpec(queue_name="letters"), JobSpec())
    await claiming.lose_a_reply(proxy, lambda: jobs(connection)[0].locked_at is not None)
    assert await claiming.claim() == [first]
    for table, row in (("jobs", second), ("job_queues", 1)):
        connection.execute(
            f"update graphile_worker._private_{table} set locked_by = %s, locked_at = clock_timestamp() where id = %s",
            [claiming.worker_id, row],
        )
    assert await claiming.claim() == [third]

    nothing = await claiming.claimer.claim(1)
    assert (len(nothing.claims), nothing.next_due_in) == (0, 1.0), "it will look again"
    clock.now += 1.0

    assert await claiming.claim() == [second]
    assert [job.locked_by for job in jobs(connection)] == [claiming.worker_id] * 3, "the others are still its own"


@pytest.mark.usefixtures("clock")
async def test_a_lost_claim_is_found_although_the_clock_of_the_database_has_gone_back(
    client: Client, connection: psycopg.Connection, proxy: Proxy, claiming: Claiming
) -> None:
    known, lost = await _add(client, JobSpec(), JobSpec())
    assert await claiming.claim() == [known]
    await claiming.lose_a_reply(proxy, lambda: jobs(connection)[1].locked_at is not None)
    connection.execute(  # as if the clock had gone back between the two claims
        "update graphile_worker._private_jobs set locked_at = locked_at - interval '1 hour' where id = %s", [lost]
    )

    assert await claiming.claim() == [lost]
    assert [job.attempts for job in jobs(connection)] == [1, 1]


async def test_a_search_for_lost_claims_that_is_carried_out_late_comes_to_nothing(  # noqa: PLR0917 - fixtures
    client: Client,
    connection: psycopg.Connection,
    proxy: Proxy,
    claiming: Claiming,
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows nothing of the claims that the worker has made since over another connection."""
    search = return_lost_claims

    def search_unheard(*args: Any, **given: Any) -> Call:
        proxy.passes_replies = False
        return search(*args, **given)

    [job_id] = await _add(client, JobSpec())
    await claiming.lose_a_reply(proxy, lambda: jobs(connection)[0].locked_at is not None)
    with monkeypatch.context() as patched:
        patched.setattr(lost_replies, "return_lost_claims", search_unheard)
        looking = asyncio.create_task(claiming.claimer.claim(1))
        await until(lambda: _holds_a_transaction(connection), "the search was carried out")
        proxy.passes_replies = True
        proxy.reset()
        with pytest.raises(DatabaseUnavailableError):
            await looking

    await until(lambda: not _holds_a_transaction(connection), "the server has noticed")
    assert jobs(connection)[0].locked_by == claiming.worker_id
    clock.now += 600.0
    assert await claiming.claim() == [job_id]


def _holds_a_transaction(observer: psycopg.Connection) -> bool:
    row = observer.execute(
        "select exists (select from pg_stat_activity where datname = current_database() and xact_start is not null"
        " and state = 'idle in transaction' and query like 'with heard%' and pid <> pg_backend_pid())"
    )
    return row.fetchone() == (True,)


def _has_settled(observer: psycopg.Connection, since: datetime) -> bool:
    row = observer.execute(
        "select exists (select from pg_stat_activity where datname = current_database() and state = 'idle'"
        " and query like 'with%%' and query_start > %s)",
        [since],
    )
    return row.fetchone() == (True,)


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig(size=1)], ids=["direct", "local queue"])
async def test_an_outcome_that_was_never_sent_is_refused_when_somebody_else_has_completed_the_job(
    app: App,
    client: Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    local_queue: LocalQueueConfig | None,
) -> None:
    """As for a worker that was frozen: the connections that it waited for took too long, and others had its job."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    refusals = 0
    get = AsyncPool.getconn

    async def get_none(pool: AsyncPool) -> Any:
        nonlocal refusals
        if not go_on.is_set() or not jobs(connection):
            return await get(pool)
        refusals += 1
        raise NotConnectedError("all connections were in use")

    @app.task
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    hooks = HookRegistry()
    told: list[str] = []
    for event in (JobComplete, JobFail, SettleRefused):
        hooks.on(event, lambda told_of: told.append(type(told_of).__name__))
    await client.add_job(hold.job())
    worker = worker_of(app, hooks=hooks, local_queue=local_queue)
    monkeypatch.setattr(AsyncPool, "getconn", get_none)
    async with running(worker):
        await asyncio.wait_for(begun.wait(), 60)
        go_on.set()
        await until(lambda: refusals > 0, "the outcome cannot be sent")
        connection.execute("delete from graphile_worker._private_jobs")
        await until(lambda: told, "the outcome is told")
    assert told == ["SettleRefused"]


async def test_an_outcome_is_not_told_as_refused_when_the_question_after_its_write_fails(
    app: App, client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two outcomes are written together. Somebody has deleted the second job, so the worker asks who has it."""
    go_on = asyncio.Event()
    begun = 0
    fetch = TimedDatabase.fetch
    failures = 0

    async def fail_once(self: TimedDatabase, call: Call) -> Sequence[Row]:
        nonlocal failures
        if call.statement.name == "find_jobs" and not failures:
            failures += 1
            raise DatabaseError("canceling statement due to statement timeout")
        return await fetch(self, call)

    @app.task
    async def hold() -> None:
        nonlocal begun
        begun += 1
        await go_on.wait()

    hooks = HookRegistry()
    told: dict[int, str] = {}
    hooks.on(JobComplete, lambda event: told.update({event.job.id: "JobComplete"}))
    hooks.on(SettleRefused, lambda event: told.update({event.job_id: "SettleRefused"}))
    first, second = await client.add_jobs([hold.job(), hold.job()])
    monkeypatch.setattr(TimedDatabase, "fetch", fail_once)
    async with running(worker_of(app, hooks=hooks, local_queue=LocalQueueConfig(size=1))):
        await until(lambda: begun == 2, "both jobs run")
        connection.execute("delete from graphile_worker._private_jobs where id = %s", [second.id])
        go_on.set()
        await until(lambda: len(told) == 2, "both outcomes are told")
    assert failures == 1
    assert told[first.id] == "JobComplete"
