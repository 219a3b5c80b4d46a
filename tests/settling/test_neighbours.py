"""Every outcome of a job is written, whatever others do to its row, or to its queue's, at that moment.

Each test is a worker and one way for its jobs to end. There is a job for every neighbour, with and without a named
queue, and each neighbour works on the row of its own job. What is left of each job is compared with what is promised,
so that a failure names the neighbours that made a difference.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import SweepStaleWorkersOptions
from ferryman.worker.claiming import renewal
from tests.settling.endings import (
    COMMITTED,
    COMPLETED,
    ENDINGS,
    FAILED,
    INTERRUPTED,
    INTERRUPTION,
    ROLLED_BACK,
    SNOOZED,
    Ending,
)
from tests.settling.neighbours import NOBODY, SUCCESSOR, Cell, Effect, Neighbour, all_cells, neighbours_of
from tests.settling.promises import check, promised
from tests.settling.stage import MODES, Stage
from tests.support.inside import inside
from tests.support.tables import Tables
from tests.support.waiting import until, waiting_for_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman import Client

pytestmark = pytest.mark.claims

GATHERING = timedelta(milliseconds=20)
"""How long a statement waits for more outcomes, so that it gets all of those that come at the same moment."""
SETTLEMENTS, CLAIMS, RENEWALS = 7, 8, 9
"""Advisory locks for which statements wait."""


@pytest.fixture
def brake(tables: Tables, database: str) -> Iterator[Tables]:
    """A connection that can make statements wait.

    Those that settle, and claims that complete jobs in passing, wait between their snapshot and their first row.
    Renewals wait at their end, before they are committed.
    """
    tables.connection.execute(
        f"""
        create function wait() returns trigger language plpgsql as $$
        begin
            if tg_level = 'ROW' then
                perform pg_advisory_xact_lock_shared({RENEWALS});
            elsif current_query() like '%locked_by = null%' then
                perform pg_advisory_xact_lock_shared({SETTLEMENTS});
            elsif tg_op = 'DELETE' then
                perform pg_advisory_xact_lock_shared({CLAIMS});
            end if;
            return null;
        end
        $$;
        create trigger wait before update or delete on graphile_worker._private_jobs
        for each statement execute function wait();
        create trigger wait_after_renewal after update on graphile_worker._private_jobs
        for each row when (old.locked_at <> new.locked_at) execute function wait();
        """
    )
    with psycopg.connect(database, autocommit=True) as connection:
        yield Tables(connection)


def pull(brake: Tables, *locks: int) -> None:
    for lock in locks:
        brake.query("select pg_advisory_lock(%s)", lock)


def release(brake: Tables) -> None:
    brake.query("select pg_advisory_unlock_all()")


def waiting_at_brake(tables: Tables, lock: int) -> int:
    """How many statements wait there."""
    [row] = tables.query(
        "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted"
        " and database = (select oid from pg_database where datname = current_database())",
        lock,
    )
    return int(row["count"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
async def test_an_outcome_that_meets_a_neighbour_is_written_when_that_has_ended(
    database: str, tables: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, mode: str
) -> None:
    stage = Stage(database, tables, ending, mode, all_cells())

    async with stage.set_up(monkeypatch):
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            await until(lambda: stage.waits() or stage.has_gone_on(), "the outcomes have met the neighbours")
        await stage.until_over()
        stage.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending is not COMMITTED], ids=str)
async def test_an_outcome_that_was_left_behind_by_the_others_is_written_when_its_neighbour_has_ended(
    database: str, tables: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, mode: str
) -> None:
    """Handlers that complete their jobs in transactions of their own wait for whoever holds the row."""
    stage = Stage(database, tables, ending, mode, all_cells())

    async with stage.set_up(monkeypatch):
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            await until(stage.has_gone_on, "jobs without a neighbour are settled")
            assert {cell for cell in stage.cells if cell.neighbour.holds} <= stage.locked()
        await stage.until_over()
        stage.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
async def test_an_outcome_is_written_although_its_row_has_changed_since_the_statement_began(
    *, database: str, tables: Tables, brake: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, mode: str
) -> None:
    """The statement has its snapshot, and has not come to the rows: it finds others than it has seen."""
    stage = Stage(database, tables, ending, mode, all_cells(with_rollbacks=False))
    statements = len(stage.cells) if ending.in_transaction == "commit" else 1

    async with stage.set_up(monkeypatch, complete_job_batch_delay=GATHERING, fail_job_batch_delay=GATHERING):
        pull(brake, SETTLEMENTS)
        stage.let_end()
        await until(lambda: waiting_at_brake(tables, SETTLEMENTS) >= statements, "the outcomes are on their way")
        for cell in stage.cells:
            cell.neighbour.act(brake, stage.jobs[cell])
        release(brake)
        await stage.until_over()
        stage.check()


async def test_a_completion_in_passing_is_written_although_its_row_has_changed_since_the_statement_began(
    database: str, tables: Tables, brake: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [cell for cell in all_cells(with_rollbacks=False) if not cell.is_queued]
    stage = Stage(database, tables, COMPLETED, "direct", plain)

    async with stage.set_up(monkeypatch):
        tables.add_job("block")  # for which there is no free slot, so that a claim follows at once
        pull(brake, SETTLEMENTS, CLAIMS)
        stage.let_end()
        await until(lambda: waiting_at_brake(tables, CLAIMS) > 0, "a claim takes completions along")
        for cell in stage.cells:
            cell.neighbour.act(brake, stage.jobs[cell])
        release(brake)
        await stage.until_over()
        stage.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", [COMPLETED, FAILED, SNOOZED, INTERRUPTION, COMMITTED, ROLLED_BACK], ids=str)
async def test_an_outcome_that_meets_the_renewal_of_its_lock_is_written(
    *, database: str, tables: Tables, brake: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, mode: str
) -> None:
    monkeypatch.setattr(renewal, "SECONDS_UNTIL_OLD", 0.0)
    neighbour = Neighbour("renewal", NOBODY.act)
    cells = [Cell(neighbour, commits=True, is_queued=is_queued) for is_queued in (False, True)]
    stage = Stage(database, tables, ending, mode, cells)

    async with stage.set_up(monkeypatch, concurrency=3):
        before = [tables.job(job["id"])["locked_at"] for job in stage.jobs.values()]
        pull(brake, RENEWALS)
        renewing = asyncio.create_task(inside(stage.worker).renewal.look())
        await until(lambda: waiting_at_brake(tables, RENEWALS) == 1, "the renewal is under way")
        await stage.join(Cell(NOBODY, commits=True, is_queued=False))
        stage.let_end()
        await until(lambda: waits_beside_renewal(stage) or stage.has_gone_on(), "the outcomes have met the renewal")
        assert [tables.job(stage.jobs[cell]["id"])["locked_at"] for cell in cells] == before
        release(brake)
        await renewing
        await stage.until_over()
        stage.check()


def waits_beside_renewal(stage: Stage) -> bool:
    """Whether more wait for locks than the renewal itself: the settlement, or each handler with a transaction."""
    waiting = waiting_for_locks(stage.tables.connection) - waiting_at_brake(stage.tables, RENEWALS)
    return waiting >= (2 if stage.ending.in_transaction == "commit" else 1)


async def test_a_sweep_goes_on_beside_held_rows_and_the_next_one_recovers_their_jobs(
    database: str, tables: Tables, client: Client
) -> None:
    recovered = Ending("recovered", last_error=INTERRUPTED, delay=6000)
    retired = replace(recovered, last_error=None)
    jobs = {}
    tables.query("insert into graphile_worker._private_tasks (identifier) values (%s)", SUCCESSOR)
    tables.worker("dead", max_crashes=None)  # so that nothing is noted on the jobs
    for cell in all_cells():
        named = {} if cell.queue is None else {"queue_name": cell.queue}
        job_id = tables.held_job("dead", identifier="play", payload={"cell": cell.name}, job_key=cell.name, **named)
        jobs[cell] = tables.job(job_id)
    options = SweepStaleWorkersOptions(worker_ids=["dead"], recovery_delay=timedelta(seconds=6000))

    with neighbours_of(jobs, database):
        sweeping = asyncio.create_task(client.sweep_stale_workers(options))
        await until(sweeping.done, "the sweep waits for nobody")
        free = {cell for cell in jobs if not cell.neighbour.holds}
        assert {each.job_id for each in (await sweeping).recoveries} == {jobs[cell]["id"] for cell in free}
    await client.sweep_stale_workers(options)

    wanted = {
        cell: promised(retired if cell.effect is Effect.RETIRED else recovered, cell)._replace(events=())
        for cell in jobs
    }
    check(tables, jobs, wanted, events={})
    assert tables.workers() == []
