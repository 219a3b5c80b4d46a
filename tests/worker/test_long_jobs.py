"""Locks of long jobs are renewed, so that nobody takes them for forgotten."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman import App, JobSpec, SweepStaleWorkersOptions, WorkerContext
from ferryman.errors import DatabaseError
from ferryman.hooks import HookRegistry, JobComplete, JobFail, JobInterrupted, SettleRefused
from ferryman.worker.claiming import renewal
from tests.support import nodes
from tests.support.inside import inside
from tests.support.network import Proxy
from tests.support.waiting import end_sessions_that_wait, until, waiting_for_locks
from tests.support.workers import jobs, only_job, queues, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from ferryman import Client, Worker
    from ferryman.embedded import EmbeddedPostgres
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.renewal import LockRenewal

pytestmark = pytest.mark.claims

HOUR = 3600.0


@pytest.fixture
def every_lock_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "SECONDS_UNTIL_OLD", 0.0)


class Gate:
    """Where handlers wait, on the loop or in a thread."""

    def __init__(self) -> None:
        self.begun = 0
        self._go_on = threading.Event()

    def open(self) -> None:
        self._go_on.set()

    def wait(self) -> None:
        self.begun += 1
        self._go_on.wait()

    async def pass_through(self) -> None:
        self.begun += 1
        await until(self._go_on.is_set, "the gate is opened")


@dataclass
class Scene:
    """What most tests need."""

    app: App
    client: Client
    connection: psycopg.Connection
    database: str
    gate: Gate = field(default_factory=Gate)
    hooks: HookRegistry = field(default_factory=HookRegistry)
    told: list[str] = field(default_factory=list)
    """What became of jobs."""


@pytest.fixture
def scene(app: App, client: Client, connection: psycopg.Connection, database: str) -> Iterator[Scene]:
    made = Scene(app, client, connection, database)
    for kind in (JobComplete, JobFail, JobInterrupted, SettleRefused):
        made.hooks.on(kind, lambda event: made.told.append(type(event).__name__))
    yield made
    made.gate.open()


@pytest.fixture
async def proxy(server: EmbeddedPostgres, database: str) -> AsyncIterator[Proxy]:
    async with Proxy(make_conninfo(server.tcp_dsn, dbname=conninfo_to_dict(database)["dbname"])) as opened:
        yield opened


@pytest.fixture
def brake(database: str, connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """Whoever renews the lock of a job waits, with the row locked, until this connection ends its transaction."""
    connection.execute(
        "create function wait() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock_shared(7); return new; end $$;"
        "create trigger wait before update on graphile_worker._private_jobs for each row"
        " when (old.locked_at <> new.locked_at) execute function wait()"
    )
    with psycopg.connect(database) as opened:
        opened.execute("select pg_advisory_xact_lock(7)")
        yield opened


def watch(worker: Worker) -> LockRenewal:
    """The part of a running worker that looks for old locks."""
    return inside(worker).renewal


def held_by(worker: Worker) -> list[Claim]:
    return inside(worker).running


@asynccontextmanager
async def working(app: App, gate: Gate, count: int = 1, **given: Any) -> AsyncIterator[Worker]:
    """A worker whose handlers have come to the gate; it opens when the block ends."""
    worker = worker_of(app, **given)
    async with running(worker):
        try:
            await until(lambda: gate.begun == count, "the handlers run")
            yield worker
        finally:
            gate.open()


def add_mark(connection: psycopg.Connection) -> None:
    """Mark all jobs as started under the claims that they have."""
    connection.execute(
        "insert into graphile_worker._ferryman_started_jobs (job_id, locked_by, locked_at)"
        " select id, locked_by, locked_at from graphile_worker._private_jobs"
    )


@pytest.mark.usefixtures("every_lock_is_old")
@pytest.mark.parametrize(("error", "event"), [(None, "JobComplete"), (ValueError("no"), "JobFail")])
async def test_everything_that_belongs_to_a_claim_is_renewed_with_it_and_the_job_ends_as_any_other(
    scene: Scene, error: Exception | None, event: str
) -> None:
    @scene.app.task
    async def work(ctx: WorkerContext) -> None:
        ctx.set_progress(0.5)
        await scene.gate.pass_through()
        if error is not None:
            raise error

    def tokens(table: str) -> list[Any]:
        return scene.connection.execute(f"select locked_at from graphile_worker.{table}").fetchall()

    job = await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(scene.app, scene.gate, hooks=scene.hooks) as worker:
        await until(lambda: len(tokens("_ferryman_progress")) == 1, "progress is written")
        add_mark(scene.connection)
        [before] = tokens("_private_jobs")
        for _ in range(3):
            await watch(worker).look()
        [after] = tokens("_private_jobs")
        assert after > before
        for table in ("_private_job_queues", "_ferryman_started_jobs", "_ferryman_progress"):
            assert tokens(table) == [after]
        progress = await scene.client.get_progress(job.id)
        assert progress is not None
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == [event]
    assert queues(scene.connection)[0].locked_at is None
    assert [job.locked_at for job in jobs(scene.connection)] == ([] if error is None else [None])


async def test_a_lock_is_renewed_when_its_job_has_run_for_an_hour_and_every_hour_after(scene: Scene) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    await scene.client.add_job(work.job())
    async with working(scene.app, scene.gate) as worker:
        renewals = []
        for seconds in (0.0, HOUR - 1, HOUR, 2 * HOUR - 1, 2 * HOUR):
            before = only_job(scene.connection).locked_at
            watch(worker)._clock = lambda seconds=seconds: seconds
            await watch(worker).look()
            renewals.append(only_job(scene.connection).locked_at > before)
    assert renewals == [False, False, True, False, True]


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_worker_without_running_jobs_asks_nothing(scene: Scene) -> None:
    worker = worker_of(scene.app)
    async with running(worker):
        await until(lambda: inside(worker).is_alive, "the worker runs")
        watch(worker)._connection = None  # type: ignore[assignment]
        await watch(worker).look()


@pytest.mark.usefixtures("every_lock_is_old")
@pytest.mark.parametrize("earlier_renewals", [0, 1])
@pytest.mark.parametrize("ending", ["returns", "raises", "completes"])
async def test_an_outcome_that_meets_the_renewal_of_its_lock_is_written(
    scene: Scene, observer: psycopg.Connection, brake: psycopg.Connection, ending: str, earlier_renewals: int
) -> None:
    @scene.app.task
    async def work(ctx: WorkerContext) -> None:
        await scene.gate.pass_through()
        if ending == "raises":
            raise ValueError("no")
        if ending == "completes":
            async with await psycopg.AsyncConnection.connect(scene.database) as mine:
                await ctx.complete_in(mine)

    await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(scene.app, scene.gate, hooks=scene.hooks) as worker:
        brake.rollback()
        for _ in range(earlier_renewals):
            await watch(worker).look()
        brake.execute("select pg_advisory_xact_lock(7)")
        looking = asyncio.create_task(watch(worker).look())
        await until(lambda: waiting_for_locks(observer) == 1, "the renewal is under way")
        scene.gate.open()
        await until(
            lambda: waiting_for_locks(observer) == 2 or inside(worker).blocked, "the outcome waits, or is put off"
        )
        brake.rollback()
        await looking
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobFail" if ending == "raises" else "JobComplete"]
    assert queues(scene.connection)[0].locked_at is None
    assert all(job.locked_at is None for job in jobs(scene.connection))


@pytest.mark.usefixtures("every_lock_is_old")
@pytest.mark.parametrize("looks", [1, 3])
async def test_a_handler_in_a_thread_completes_its_job_after_its_lock_was_renewed(scene: Scene, looks: int) -> None:
    @scene.app.task
    def work(ctx: WorkerContext) -> None:
        scene.gate.wait()
        with psycopg.connect(scene.database) as mine:
            ctx.complete_in_blocking(mine)

    await scene.client.add_job(work.job())
    async with working(scene.app, scene.gate, hooks=scene.hooks) as worker:
        for _ in range(looks):
            await watch(worker).look()
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobComplete"]
    assert jobs(scene.connection) == []


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_task_in_a_child_process_completes_its_job_after_its_lock_was_renewed(
    scene: Scene, tmp_path: Path
) -> None:
    app = App(scene.database)
    app.include(process_tasks.app)
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    await scene.client.add_job(process_tasks.complete_later.job(dsn=scene.database, begun=str(begun), go_on=str(go_on)))
    worker = worker_of(app, hooks=scene.hooks)
    async with running(worker):
        await until(begun.exists, "the task runs")
        for _ in range(3):
            await watch(worker).look()
        go_on.touch()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobComplete"]
    assert jobs(scene.connection) == []


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_task_in_a_child_process_that_has_lost_its_job_cannot_complete_it(scene: Scene, tmp_path: Path) -> None:
    app = App(scene.database)
    app.include(process_tasks.app)
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    await scene.client.add_job(process_tasks.complete_later.job(dsn=scene.database, begun=str(begun), go_on=str(go_on)))
    worker = worker_of(app, hooks=scene.hooks)
    async with running(worker):
        await until(begun.exists, "the task runs")
        await watch(worker).look()
        scene.connection.execute("update graphile_worker._private_jobs set locked_at = now()")
        go_on.touch()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["SettleRefused"]
    assert only_job(scene.connection).locked_at is not None


@pytest.mark.usefixtures("every_lock_is_old")
@pytest.mark.parametrize("error", [None, ValueError("no")])
async def test_a_job_whose_renewal_was_written_and_never_answered_is_still_ours(
    scene: Scene, proxy: Proxy, error: Exception | None
) -> None:
    app = App(proxy.dsn)

    @app.task
    async def work() -> None:
        await scene.gate.pass_through()
        if error is not None:
            raise error

    await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(app, scene.gate, hooks=scene.hooks) as worker:
        before = only_job(scene.connection).locked_at
        proxy.cuts_at = b"renewed"
        with pytest.raises(DatabaseError):
            await watch(worker).look()
        assert only_job(scene.connection).locked_at > before
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobComplete" if error is None else "JobFail"]
    assert queues(scene.connection)[0].locked_at is None


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_job_whose_renewal_came_to_nothing_is_still_ours_and_is_renewed_by_the_next(
    scene: Scene, observer: psycopg.Connection, brake: psycopg.Connection
) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(scene.app, scene.gate, hooks=scene.hooks) as worker:
        before = only_job(scene.connection).locked_at
        looking = asyncio.create_task(watch(worker).look())
        await until(lambda: waiting_for_locks(observer) == 1, "the renewal is under way")
        assert end_sessions_that_wait(observer) == 1
        with pytest.raises(DatabaseError):
            await looking
        assert only_job(scene.connection).locked_at == before
        brake.rollback()
        await watch(worker).look()
        assert only_job(scene.connection).locked_at > before
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobComplete"]


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_job_that_was_replaced_while_it_ran_is_known_as_such_after_its_renewal(scene: Scene) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    await scene.client.add_job(work.job(), JobSpec(job_key="one"))
    shutdown = {"grace_period": timedelta(0)}
    async with working(scene.app, scene.gate, shutdown=shutdown, concurrency=1) as worker:
        await scene.client.add_job(work.job(), JobSpec(job_key="one", run_at=datetime.now(UTC) + timedelta(hours=1)))
        await watch(worker).look()
        replaced, successor = jobs(scene.connection)
        assert replaced.updated_at > replaced.locked_at
        worker.request_shutdown()
        await until(lambda: jobs(scene.connection)[0].locked_at is None, "the job was interrupted")
    replaced, successor = jobs(scene.connection)
    assert replaced.attempts == replaced.max_attempts
    assert (successor.key, successor.attempts) == ("one", 0)


@pytest.mark.usefixtures("every_lock_is_old")
async def test_what_was_claimed_and_never_heard_of_goes_back_and_renewed_jobs_stay(scene: Scene) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    known = await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(scene.app, scene.gate, hooks=scene.hooks, concurrency=1) as worker:
        await watch(worker).look()
        unheard = await scene.client.add_job(work.job(), JobSpec(queue_name="parcels"))
        for table in ("_private_jobs", "_private_job_queues"):
            scene.connection.execute(
                f"update graphile_worker.{table} set locked_at = now(), locked_by = %s where locked_at is null",
                [worker.worker_id],
            )
        lost = inside(worker).lost_replies
        lost.reply_lost(worker.worker_id)
        await lost.give_back(at_once=True)
        assert [(job.id, job.locked_by) for job in jobs(scene.connection)] == [
            (known.id, worker.worker_id), (unheard.id, None),
        ]  # fmt: skip
        assert [queue.locked_by for queue in queues(scene.connection)] == [worker.worker_id, None]
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told[0] == "JobComplete"


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_handler_whose_job_was_swept_is_cancelled_when_its_lock_cannot_be_renewed(scene: Scene) -> None:
    seen: list[bool] = []
    begun = asyncio.Event()

    @scene.app.task
    async def work(ctx: WorkerContext) -> None:
        begun.set()
        try:
            await asyncio.sleep(HOUR)
        finally:
            seen.append(ctx.lease_lost)

    await scene.client.add_job(work.job(), JobSpec(max_attempts=1))
    worker = worker_of(scene.app, hooks=scene.hooks, concurrency=1)
    async with running(worker):
        await begun.wait()
        await watch(worker).look()
        named = SweepStaleWorkersOptions(worker_ids=[worker.worker_id], recovery_delay=timedelta(hours=1))
        result = await scene.client.sweep_stale_workers(named)
        assert len(result.recoveries) == 1
        await watch(worker).look()
        await until(lambda: bool(scene.told), "the job has ended")
    assert (seen, scene.told) == ([True], ["SettleRefused"])
    assert only_job(scene.connection).locked_by is None


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_handler_that_has_completed_its_job_and_not_returned_is_left_alone(scene: Scene) -> None:
    @scene.app.task
    async def work(ctx: WorkerContext) -> None:
        async with await psycopg.AsyncConnection.connect(scene.database) as mine:
            await ctx.complete_in(mine)
        await scene.gate.pass_through()

    await scene.client.add_job(work.job())
    async with working(scene.app, scene.gate, hooks=scene.hooks) as worker:
        await watch(worker).look()
        scene.gate.open()
        await until(lambda: bool(scene.told), "the job has ended")
    assert scene.told == ["JobComplete"]


@pytest.mark.usefixtures("every_lock_is_old")
async def test_a_job_whose_row_somebody_works_on_is_renewed_later_and_holds_up_no_other(scene: Scene) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    await scene.client.add_jobs([work.job(), work.job()])
    async with working(scene.app, scene.gate, 2, hooks=scene.hooks) as worker:
        before = only_lock(scene.connection)
        with psycopg.connect(scene.database) as somebody:
            somebody.execute("select from graphile_worker._private_jobs order by id limit 1 for update")
            await watch(worker).look()
        first, second = jobs(scene.connection)
        assert first.locked_at == before < second.locked_at
        await watch(worker).look()
        assert jobs(scene.connection)[0].locked_at > before
        scene.gate.open()
        await until(lambda: len(scene.told) == 2, "the jobs have ended")
    assert scene.told == ["JobComplete", "JobComplete"]


def only_lock(connection: psycopg.Connection) -> Any:
    """The moment of the one claim that has all jobs."""
    [locked_at] = {job.locked_at for job in jobs(connection)}
    return locked_at


@pytest.mark.usefixtures("every_lock_is_old")
async def test_node_takes_a_job_whose_lock_is_four_hours_old_and_leaves_one_that_was_renewed(scene: Scene) -> None:
    @scene.app.task
    async def work() -> None:
        await scene.gate.pass_through()

    await scene.client.add_job(work.job(), JobSpec(queue_name="letters"))
    async with working(scene.app, scene.gate, concurrency=1) as worker:
        [claim] = held_by(worker)
        age(scene.connection, claim)
        await watch(worker).look()
        nodes.run("0.18", "resetLocked", scene.database, tasks=["other"])
        assert only_job(scene.connection).locked_by == worker.worker_id
        assert queues(scene.connection)[0].locked_by == worker.worker_id
        age(scene.connection, claim)
        nodes.run("0.18", "resetLocked", scene.database, tasks=["other"])
        assert only_job(scene.connection).locked_by is None
        assert queues(scene.connection)[0].locked_by is None
        worker.request_shutdown()


def age(connection: psycopg.Connection, claim: Claim) -> None:
    """Let five hours pass for a claim: as if it had been made, or renewed, so long ago."""
    for table in ("_private_jobs", "_private_job_queues"):
        connection.execute(f"update graphile_worker.{table} set locked_at = now() - interval '5 hours'")
    [(token,)] = connection.execute(
        "select (extract(epoch from locked_at) * 1000000)::bigint from graphile_worker._private_jobs"
    )
    connection.execute(
        "update graphile_worker._private_job_queues set locked_at = job.locked_at"
        " from graphile_worker._private_jobs as job"
    )
    claim.later_tokens = (*claim.later_tokens, token)
