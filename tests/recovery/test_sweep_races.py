"""Sweeps among others who change the same rows, in several batches, and at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.database.steps import Commit, Emit, Transaction
from ferryman.errors import DatabaseError, DatabaseUnavailableError
from ferryman.hooks import HookRegistry, JobInterrupted, JobRecovery, JobRecoveryResult, WorkerRecovered
from ferryman.queries import sweep
from ferryman.queries.advisory_locks import SWEEP_LOCK_CLASS
from ferryman.queries.sweep import take_recovery_lock
from ferryman.recovery import sweeping
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from tests.support.rhythms import CROWD
from tests.support.sweeps import seen, sweep_as_worker
from tests.support.waiting import somebody_waits_for_a_lock, until, waiting_for_locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import Client
    from ferryman.database.steps import Steps
    from tests.support.tables import Tables

pytestmark = pytest.mark.claims


async def test_many_jobs_are_recovered_in_batches(tables: Tables, sweeper: Client) -> None:
    jobs = [tables.held_job(tables.worker()) for _ in range(7)]
    result = await sweep_as_worker(sweeper, batch=3)
    assert [each.job_id for each in result.recoveries] == jobs
    assert (tables.workers(), tables.lost_workers()[0]["recovered_jobs"]) == ([], 7)


async def test_a_last_batch_that_is_full_ends_the_sweep_all_the_same(tables: Tables, sweeper: Client) -> None:
    for _ in range(6):
        tables.held_job(tables.worker())
    assert (await sweep_as_worker(sweeper, batch=3)).recovered_count == 6
    assert tables.workers() == []


async def test_the_jobs_of_several_dead_workers_share_batches(tables: Tables, sweeper: Client) -> None:
    for number in range(8):
        tables.held_job(tables.worker(f"worker {number % 3}"))
    result = await sweep_as_worker(sweeper, batch=3)
    assert (result.recovered_count, len(result.worker_ids), tables.workers()) == (8, 3, [])


async def test_sweeps_at_the_same_time_recover_each_job_once(tables: Tables, sweeper: Client) -> None:
    jobs = [tables.held_job(tables.worker(f"worker {number % 5}")) for number in range(60)]
    results = await asyncio.gather(*(sweep_as_worker(sweeper, batch=7) for _ in range(8)))
    recovered = [each.job_id for result in results for each in result.recoveries]
    assert sorted(recovered) == jobs
    assert sorted(crash["job_id"] for crash in tables.crashes()) == jobs
    assert all(tables.job(job_id)["attempts"] == 0 for job_id in jobs)


def after_each_batch(monkeypatch: pytest.MonkeyPatch, act: Callable[[list[int]], None]) -> None:
    """Do something with the ids of the jobs of each batch, when it is committed and the next one has not begun."""
    job_events = sweeping.job_events

    def act_and_go_on(rows: Any, jobs: Any) -> Any:
        act([row[0] for row in rows])
        return job_events(rows, jobs)

    monkeypatch.setattr(sweeping, "job_events", act_and_go_on)


async def test_a_sweep_that_is_cut_off_leaves_whole_batches_behind_and_the_next_one_goes_on(
    tables: Tables, sweeper: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks still get the events of what it has done."""
    jobs = [tables.held_job(tables.worker(), queue_name=f"q{number}") for number in range(4)]
    hooks, told = HookRegistry(), []
    hooks.on(JobInterrupted, lambda event: told.append(event.job.id))

    def cut_off(done: list[int]) -> None:
        if jobs[1] in done:
            tables.query(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )

    after_each_batch(monkeypatch, cut_off)
    with pytest.raises(DatabaseUnavailableError):
        await sweep_as_worker(sweeper, hooks=hooks, batch=2)
    assert told == jobs[:2]
    assert [tables.job(job_id)["locked_by"] for job_id in jobs] == [None, None, "dead", "dead"]
    assert [tables.queue(f"q{number}")["locked_by"] for number in range(4)] == [None, None, "dead", "dead"]
    assert (tables.workers(), len(tables.crashes())) == (["dead"], 2)
    await until_it_answers(sweeper)
    assert (await sweep_as_worker(sweeper)).recovered_count == 2
    assert tables.workers() == []


async def test_a_beat_that_is_on_its_way_saves_the_worker(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    with tables.connection.transaction():
        tables.query("select graphile_worker.worker_heartbeat('dead')")
        result = await sweep_as_worker(sweeper)
        assert (result.worker_ids, result.recovered_count) == ((), 0)
    assert tables.job(job_id)["locked_by"] == "dead"
    assert tables.workers() == ["dead"]


async def test_no_beat_saves_a_worker_that_somebody_has_named(
    tables: Tables, sweeper: Client, database: str, connection: psycopg.Connection
) -> None:
    tables.held_job(tables.worker("alive", age="1 second"))
    with psycopg.connect(database) as beating:
        beating.execute("update graphile_worker._private_workers set last_heartbeat_at = now()")
        options = SweepStaleWorkersOptions(worker_ids=["alive"])
        sweeping = asyncio.create_task(sweeper.sweep_stale_workers(options))
        await until(lambda: somebody_waits_for_a_lock(connection), "the sweep waits for the beat")
        connection.rollback()
        beating.commit()
        assert (await sweeping).recovered_count == 1
    assert tables.workers() == []


async def test_a_job_that_is_being_settled_is_left_to_its_settler(tables: Tables, sweeper: Client) -> None:
    settled, other = tables.held_job(tables.worker()), tables.held_job()
    with tables.connection.transaction():
        tables.query("delete from graphile_worker._private_jobs where id = %s", settled)
        result = await sweep_as_worker(sweeper)
    assert [each.job_id for each in result.recoveries] == [other]
    assert tables.workers() == ["dead"], "it seemed to hold a job still"
    assert (await sweep_as_worker(sweeper)).worker_ids == ("dead",)
    assert tables.workers() == []


async def test_the_sweep_does_not_wait_for_a_transaction_that_holds_a_job(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker())
    with tables.connection.transaction():
        tables.query("select from graphile_worker._private_jobs for update")
        result = await asyncio.wait_for(sweep_as_worker(sweeper), 60)
    assert result.recovered_count == 0


async def test_a_job_that_is_claimed_anew_while_hooks_think_is_left_alone(tables: Tables, sweeper: Client) -> None:
    """The first claim was lost, and the same worker claimed the job again: no hook has decided about the new claim."""
    job_id = tables.held_job(tables.worker())
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    def claim_anew(_event: JobRecovery) -> None:
        tables.claim(job_id, "dead", "30 minutes")

    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert result.recovered_count == 0
    assert (tables.job(job_id)["locked_by"], tables.crashes()) == ("dead", [])


@pytest.mark.parametrize("age", ["1 hour", "10 minutes"], ids=["older", "renewed since"])
async def test_a_queue_that_the_worker_holds_under_another_claim_stays_locked(
    tables: Tables, sweeper: Client, age: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first claim lost its queue, by the four-hour rule or by hand, and the same worker claimed the queue again."""
    tables.worker()
    jobs = [tables.held_job(queue_name="q", age=each) for each in (age, "30 minutes")]
    holders = {}

    def look(done: list[int]) -> None:
        holders.update({job_id: tables.queue("q")["locked_by"] for job_id in done})

    after_each_batch(monkeypatch, look)
    assert (await sweep_as_worker(sweeper, batch=1)).recovered_count == 2
    assert holders == dict(zip(jobs, ["dead", None], strict=True))


async def test_a_queue_whose_lock_was_not_renewed_with_its_job_is_freed(tables: Tables, sweeper: Client) -> None:
    """A renewal skips a queue on whose row another transaction works: the queue keeps an older token of the claim."""
    tables.held_job(tables.worker(), queue_name="q")
    tables.lock_queue("q", "dead", "2 hours")
    assert (await sweep_as_worker(sweeper)).recovered_count == 1
    assert (tables.queue("q")["locked_by"], tables.workers()) == (None, [])


async def test_a_job_that_is_completed_while_hooks_think_is_gone(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    def complete(_event: JobRecovery) -> None:
        tables.query("delete from graphile_worker._private_jobs where id = %s", job_id)

    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert (result.recovered_count, result.worker_ids, tables.crashes()) == (0, ("dead",), [])


async def test_a_worker_that_beats_while_hooks_think_keeps_its_jobs(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    def beat(_event: JobRecovery) -> None:
        tables.query("select graphile_worker.worker_heartbeat('dead')")

    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert (result.recovered_count, result.worker_ids) == (0, ())
    assert (tables.job(job_id)["locked_by"], tables.workers()) == ("dead", ["dead"])


async def test_a_job_that_is_replaced_while_hooks_think_stays_replaced(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), job_key="k", age="1 minute")
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    def replace(event: JobRecovery) -> JobRecoveryResult:
        tables.add_job(job_key="k")
        return JobRecoveryResult.Reschedule(event.job.run_at, attempts=0)

    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert [each.decision for each in result.recoveries] == ["superseded"]
    assert not tables.job(job_id)["is_available"]


async def test_a_beat_that_comes_during_the_sweep_waits_and_finds_out(
    tables: Tables, sweeper: Client, connection: psycopg.Connection, database: str
) -> None:
    """While its jobs are being taken a worker cannot seem alive again."""
    tables.held_job(tables.worker())
    observed = [seen(tables, "dead")]
    with psycopg.connect(database, autocommit=True) as blocker, psycopg.connect(database, autocommit=True) as worker:
        # Holds up the last statement of the sweep, when everything else is done.
        with blocker.transaction():
            blocker.execute("lock table graphile_worker._ferryman_lost_workers in access exclusive mode")
            sweeping = asyncio.create_task(sweep_as_worker(sweeper, observed=observed, finds_orphans=False))
            await until(lambda: somebody_waits_for_a_lock(connection), "the sweep waits")
            beat = asyncio.create_task(
                asyncio.to_thread(
                    worker.execute,
                    "update graphile_worker._private_workers set last_heartbeat_at = now() where id = 'dead'",
                )
            )
            await until(lambda: waiting_for_locks(connection) == 2, "the beat waits for the sweep")
        assert (await sweeping).recovered_count == 1
        assert (await beat).rowcount == 0


async def until_it_answers(client: Client) -> None:
    """Let the pool find out which of its connections are gone."""
    for _ in range(50):
        try:
            await client.list_active_workers()
        except DatabaseUnavailableError:
            continue
        return
    raise AssertionError("the client never answered again")


async def test_a_sweeper_that_hangs_half_way_does_not_hold_up_the_others(
    tables: Tables, sweeper: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen process keeps its session, and with it the lock of sweeps, until the server ends it."""
    monkeypatch.setattr(sweep, "IDLE_SECONDS", 2.0 * CROWD)
    job_id = tables.held_job(tables.worker())
    hooks, has_lock, is_over = HookRegistry(), asyncio.Event(), asyncio.Event()

    @hooks.on(WorkerRecovered)
    async def hang(_: WorkerRecovered) -> None:
        has_lock.set()
        await is_over.wait()

    def half_a_sweep() -> Steps[None]:
        yield Transaction()
        yield take_recovery_lock(SWEEP_LOCK_CLASS, "graphile_worker")
        yield Emit(hooks, WorkerRecovered(worker_id="frozen", dead_worker_ids=(), jobs_recovered=0))
        yield Commit()

    hanging = asyncio.create_task(AsyncSession(lambda: sweeper.pool, sweeper.schema).run(half_a_sweep()))
    await has_lock.wait()
    monkeypatch.undo()
    assert (await sweep_as_worker(sweeper)).is_already_running
    await until(lambda: not _is_lock_held(tables), "the server ends the session")
    assert not (await sweep_as_worker(sweeper)).is_already_running
    assert tables.job(job_id)["locked_by"] is None
    is_over.set()
    with pytest.raises(DatabaseError, match="idle-in-transaction timeout"):
        await hanging


def _is_lock_held(tables: Tables) -> bool:
    held = (
        "select pid from pg_locks where locktype = 'advisory' and classid = %s::bigint::oid"
        " and database = (select oid from pg_database where datname = current_database())"
    )
    return tables.query(held, SWEEP_LOCK_CLASS) != []
