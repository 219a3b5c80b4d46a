"""Workers that claim ahead mark the start of jobs where it matters, and only there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, JobSpec, LocalQueueConfig, RawJobSpec, WorkerContext
from ferryman.hooks import HookRegistry, SettleRefused
from ferryman.queries.attempt import mark_started
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.claiming.waiting_list import WaitingList
from ferryman.worker.identity import Identity
from ferryman.worker.running import start_marks
from tests.support.fleet import idle_app
from tests.support.logs import logged
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.tables import Tables
from tests.support.waiting import until
from tests.support.workers import queues, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import Client
    from ferryman.retries import OnCrash
    from tests.support.fleet import Fleet

JOBS = 60


async def test_when_a_worker_is_killed_what_it_had_started_follows_the_policy_and_the_rest_goes_back(
    fleet: Fleet,
) -> None:
    gate = str(fleet.gate())
    [failing] = await fleet.add("fail_on_crash", gate=gate)
    [retried] = await fleet.add("retry_on_crash", gate=gate)
    waiting = [*await fleet.add("fail_on_crash", count=2), *await fleet.add("retry_on_crash", count=2)]
    [unknown] = await fleet.add("work")
    before = {job.id: job for job in fleet.jobs()}
    killed = fleet.start(PATIENT, concurrency=2, prefetch=10)
    await fleet.until_started(failing)
    await fleet.until_started(retried)
    await until(lambda: all(job.locked_by for job in fleet.jobs()), "the others are claimed ahead")

    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of(PATIENT))):
        killed.kill()
        await fleet.until_swept(killed.first_id)

    failed = fleet.job(failing)
    assert (failed.attempts, failed.last_error[:13]) == (failed.max_attempts, "WorkerCrashed")
    again = fleet.job(retried)
    assert (again.attempts, again.locked_by, again.last_error[:13]) == (1, None, "WorkerCrashed")
    for job in map(fleet.job, waiting):
        assert (job.attempts, job.locked_by, job.last_error) == (0, None, None)
        assert job.run_at == before[job.id].run_at
        assert [crash.decision for crash in fleet.crashes(job.id)] == ["given back"]
    assert [(crash.decision, crash.started) for crash in fleet.crashes(unknown)] == [("requeue", None)]


@pytest.mark.parametrize(
    ("on_crash", "default", "is_marked"),
    [(None, "requeue", False), ("requeue", "fail", False), ("fail", "requeue", True), (None, "retry", True)],
)
async def test_a_start_is_marked_only_where_a_crash_would_not_simply_requeue_the_job(
    client: Client, connection: psycopg.Connection, on_crash: OnCrash | None, default: OnCrash, is_marked: bool
) -> None:
    statements = count_statements(connection)
    done = await run_jobs(client, on_crash, default=default, local_queue=LocalQueueConfig(size=100))
    assert len(done) == JOBS
    if is_marked:
        # Those that begin at the same moment share a statement.
        assert 0 < statements() < JOBS
    else:
        assert statements() == 0


async def test_a_worker_that_claims_only_what_it_starts_marks_nothing(
    client: Client, connection: psycopg.Connection
) -> None:
    statements = count_statements(connection)
    assert len(await run_jobs(client, "fail")) == JOBS
    assert statements() == 0


async def test_without_recovery_nothing_is_marked(client: Client, connection: psycopg.Connection) -> None:
    statements = count_statements(connection)
    done = await run_jobs(client, "fail", local_queue=LocalQueueConfig(size=100), is_on=False)
    assert len(done) == JOBS
    assert statements() == 0


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig(size=100)])
async def test_a_job_that_has_crashed_before_is_marked_whatever_its_policy(
    client: Client, connection: psycopg.Connection, local_queue: LocalQueueConfig | None
) -> None:
    statements = count_statements(connection)
    job = await client.add_raw_job("task", {"number": 0})
    Tables(connection).suspect(job.id, "crashed")
    await run_jobs(client, "requeue", count=0, local_queue=local_queue, expects=1)
    assert statements() == 1


async def run_jobs(
    client: Client,
    on_crash: OnCrash | None,
    *,
    count: int = JOBS,
    expects: int = JOBS,
    default: OnCrash = "requeue",
    is_on: bool = True,
    **options: Any,
) -> list[int]:
    """Let a worker run jobs of one task; what was run."""
    app, done = App(client.address.conninfo), []

    @app.task(identifier="task", on_crash=on_crash)
    async def task(number: int) -> None:
        done.append(number)

    await client.add_raw_jobs([RawJobSpec("task", {"number": number}) for number in range(count)])
    recovery = recovery_of({**PATIENT, "on_crash": default, "enabled": is_on})
    async with running(worker_of(app, **{"recovery": recovery, "concurrency": 10, **options})):
        await until(lambda: len(done) == expects, "all jobs run")
    return done


def count_statements(connection: psycopg.Connection) -> Any:
    """A function that returns how many statements have touched the marks since now."""
    connection.execute("create sequence statements")
    connection.execute(
        "create function count_one() returns trigger language plpgsql as "
        "$$ begin perform nextval('public.statements'); return null; end $$"
    )
    connection.execute(
        "create trigger counted before insert on graphile_worker._ferryman_started_jobs "
        "for each statement execute function count_one()"
    )

    def counted() -> int:
        row = connection.execute("select case when is_called then last_value else 0 end from statements").fetchone()
        assert row is not None
        return int(row[0])

    return counted


async def test_a_job_whose_mark_is_refused_frees_its_queue(client: Client, connection: psycopg.Connection) -> None:
    """An operator has deleted the row while the job waited in a local queue."""
    app, hooks, gate, refused = App(client.address.conninfo), HookRegistry(), asyncio.Event(), []
    hooks.on(SettleRefused, lambda event: refused.append(event.job_id))
    started: list[int] = []

    @app.task(identifier="task", on_crash="fail")
    async def task(number: int) -> None:
        started.append(number)
        await gate.wait()

    await client.add_raw_job("task", {"number": 1})
    gone = await client.add_raw_job("task", {"number": 2}, spec=JobSpec(queue_name="letters"))
    options = {"local_queue": LocalQueueConfig(size=10), "recovery": recovery_of(PATIENT), "hooks": hooks}
    async with running(worker_of(app, concurrency=1, **options)):
        await until(lambda: started == [1], "the first runs, and the other waits")
        await until(lambda: queues(connection)[0].locked_by, "the queue is locked")
        connection.execute("delete from graphile_worker._private_jobs where id = %s", [gone.id])
        gate.set()
        await until(lambda: refused == [gone.id], "what is gone is refused")
        await until(lambda: queues(connection)[0].locked_by is None, "its queue is free")
    assert started == [1]


async def test_marks_that_fail_for_a_while_are_written_in_the_end(
    client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    table = "graphile_worker._ferryman_started_jobs"
    connection.execute(f"alter table {table} rename to elsewhere")
    running_all = asyncio.create_task(
        run_jobs(client, "fail", count=3, expects=3, local_queue=LocalQueueConfig(size=10))
    )
    await until(lambda: logged(caplog, "duty_failed", duty="marking the start of jobs"), "marks fail")
    connection.execute("alter table graphile_worker.elsewhere rename to _ferryman_started_jobs")
    assert sorted(await running_all) == [0, 1, 2]


async def test_jobs_whose_marks_meet_an_unexpected_error_fail_and_free_their_slots(
    client: Client, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, errors = mark_started, [RuntimeError("an error that nobody has thought of")]

    def fail_once(worker_id: str, claims: Any) -> Any:
        if errors:
            raise errors.pop()
        return mark(worker_id, claims)

    monkeypatch.setattr(start_marks, "mark_started", fail_once)
    await run_jobs(client, "fail", count=20, expects=19, concurrency=1, local_queue=LocalQueueConfig(size=100))
    question = "select attempts, locked_by from graphile_worker._private_jobs"
    assert connection.execute(question).fetchall() == [(1, None)]


@pytest.fixture
def marked_jobs(connection: psycopg.Connection) -> Callable[[], set[int]]:
    """The jobs that have a start mark."""

    def read() -> set[int]:
        rows = connection.execute("select job_id from graphile_worker._ferryman_started_jobs").fetchall()
        return {row[0] for row in rows}

    return read


async def test_jobs_that_wait_are_listed_with_each_heartbeat_and_only_these_are_marked_when_they_start(
    client: Client, connection: psycopg.Connection, marked_jobs: Callable[[], set[int]]
) -> None:
    app, gate, done = App(client.address.conninfo), asyncio.Event(), set()

    @app.task(identifier="task")
    async def task(ctx: WorkerContext) -> None:
        await gate.wait()
        done.add(ctx.job.id)

    def listed() -> set[int]:
        [(waiting,)] = connection.execute(
            "select metadata -> 'waiting' from graphile_worker._private_workers"
        ).fetchall() or [(None,)]
        return {job_id for job_ids in (waiting or {}).values() for job_id in job_ids}

    jobs = [job.id for job in await client.add_raw_jobs([RawJobSpec("task", {})] * 5)]
    recovery = recovery_of(PATIENT)
    async with running(worker_of(app, recovery=recovery, concurrency=2, local_queue=LocalQueueConfig(size=10))):
        await until(lambda: listed() == {*jobs[2:]}, "those without a slot are listed")
        gate.set()
        await until(lambda: done == {*jobs}, "all jobs run")
        assert marked_jobs() == {*jobs[2:]}
        await until(lambda: not listed(), "nothing waits any more")
        later = [job.id for job in await client.add_raw_jobs([RawJobSpec("task", {})] * 5)]
        await until(lambda: {*later} <= done, "jobs that no list has met run")
        assert marked_jobs().isdisjoint(later)


async def test_a_job_that_starts_while_the_list_that_names_it_is_on_its_way_is_marked() -> None:
    """The list holds from the moment at which it is made, and the one before until the new one is written."""
    sent, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    class Connection:
        async def fetch(self, _: object) -> list[tuple[str]]:
            sent.set()
            return await answer

    first, second = (Claim(number, 1, "{}", None, 5, "me", (), 0) for number in (1, 2))
    waiting = [first, second]
    identity = Identity()
    identity.id = "me"
    listing = WaitingList(Connection(), identity, waiting=lambda: waiting, seconds=60)  # type: ignore[arg-type]
    writing = asyncio.create_task(listing.write())
    await sent.wait()
    waiting.remove(first)  # it starts
    assert first in listing
    assert second in listing
    answer.set_result([])  # a sweep has locked the row, so the list was not written
    await writing
    answer = asyncio.get_running_loop().create_future()
    waiting.clear()  # the other starts, too
    sent.clear()
    writing = asyncio.create_task(listing.write())
    await sent.wait()
    assert second in listing, "the list that stands still names it"
    answer.set_result([("me",)])
    await writing
    assert second not in listing
