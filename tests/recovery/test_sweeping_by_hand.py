"""A sweep by hand has observed nothing yet, so it watches before it declares a worker dead."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ferryman import App, Client, SweepStaleWorkersOptions
from ferryman.database.steps import Wait
from ferryman.hooks import HookRegistry, JobRecovery, JobRecoveryResult
from ferryman.recovery import silence_check
from ferryman.recovery.rhythm import LONGEST_RECONNECT_SECONDS
from ferryman.recovery.silence_check import still_silent
from tests.support.beats import QUICK
from tests.support.fleet import idle_app
from tests.support.logs import logged
from tests.support.processes import BeatingProgram
from tests.support.rhythms import recovery_of
from tests.support.waiting import until
from tests.support.workers import run_all

if TYPE_CHECKING:
    from tests.support.tables import Tables

SELDOM = replace(QUICK, beat=4.0)


async def test_a_worker_that_could_not_beat_during_an_outage_is_not_swept_right_after_it(
    long_up: str, database: str, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    """When the database is back, such as a promoted standby, all heartbeats are old."""
    caplog.set_level("INFO", "ferryman.recovery")
    cut_off = BeatingProgram(database, SELDOM)
    try:
        await cut_off.registered()
        cut_off.freeze()
        await cut_off.froze()
        job = tables.held_job(cut_off.worker_id)
        tables.query("update graphile_worker._private_workers set last_heartbeat_at = now() - interval '1 hour'")
        async with Client(long_up) as client:
            sweeping = asyncio.create_task(client.sweep_stale_workers())
            await until(lambda: logged(caplog, "sweep_watches") or sweeping.done(), "the sweep watches")
            cut_off.thaw()
            result = await sweeping
        assert result.worker_ids == ()
        assert tables.job(job)["locked_by"] == cut_off.worker_id
    finally:
        cut_off.end()


async def test_the_only_worker_is_swept_when_it_misses_two_of_its_beats(sweeper: Client, tables: Tables) -> None:
    job = tables.held_job(tables.worker("dead", beat_interval=0.5))
    begun = time.monotonic()

    result = await sweeper.sweep_stale_workers()

    assert result.worker_ids == ("dead",)
    assert time.monotonic() - begun >= 1.0
    assert tables.job(job)["locked_by"] is None


async def test_a_worker_that_is_named_is_swept_without_watching(
    sweeper: Client, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ferryman.recovery")
    tables.held_job(tables.worker("dead", beat_interval=3600))

    result = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=["dead"]))

    assert result.worker_ids == ("dead",)
    assert logged(caplog, "sweep_watches") == []


async def test_a_worker_that_runs_once_recovers_what_a_dead_one_held_and_runs_it(long_up: str, tables: Tables) -> None:
    """It would never live long enough to observe anything."""
    app, ran = App(long_up), []

    @app.task
    async def task() -> None:
        ran.append(True)

    tables.held_job(tables.worker("dead", beat_interval=0.2), payload={})

    await run_all(app, recovery=recovery_of())

    assert ran == [True]
    assert [row["worker_id"] for row in tables.lost_workers()] == ["dead"]


async def test_a_sweep_that_watches_leaves_the_only_connection_to_others(
    long_up: str, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ferryman.recovery")
    tables.held_job(tables.worker("dead", beat_interval=60))
    async with Client(long_up, max_connections=1) as client:
        sweeping = asyncio.create_task(client.sweep_stale_workers())
        await until(lambda: logged(caplog, "sweep_watches"), "the sweep watches, for two minutes")
        await client.add_raw_job("task")
        assert not sweeping.done()
        sweeping.cancel()
        await asyncio.wait([sweeping])


async def test_a_worker_that_runs_once_waits_less_for_a_dead_one_whose_jobs_a_hook_skips_if_one_did_before(
    long_up: str, tables: Tables, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence was watched before. A worker that sends a heartbeat in between is watched anew."""
    monkeypatch.setattr(silence_check, "LONGEST_RECONNECT_SECONDS", 0.1)
    caplog.set_level("INFO", "ferryman.recovery")
    hooks, asked = HookRegistry(), []

    @hooks.on(JobRecovery)
    def skip(event: JobRecovery) -> JobRecoveryResult:
        asked.append(event.job.id)
        return JobRecoveryResult.Skip()

    job = tables.held_job(tables.worker("dead", beat_interval=0.2))
    for _ in range(2):
        await run_all(idle_app(long_up), recovery=recovery_of(), hooks=hooks)
    tables.query("update graphile_worker._private_workers set last_heartbeat_at = now() - interval '2 hours'")
    await run_all(idle_app(long_up), recovery=recovery_of(), hooks=hooks)

    assert asked == [job, job, job]
    watched = [vars(record)["seconds"] for record in logged(caplog, "sweep_watches")]
    assert watched == pytest.approx([0.4, 0.1, 0.4])


@pytest.mark.parametrize("beats_again", [False, True])
def test_however_much_silence_was_noted_a_sweep_by_hand_watches_for_some_seconds(*, beats_again: bool) -> None:
    """The note may be from before an outage that is just over, and the worker about to connect again."""
    now, watched = 0.0, 0.0
    beat, later = 1, 2
    looks = still_silent({"other": beat}, lambda: now, notes=False)
    next(looks)
    with pytest.raises(StopIteration) as ended:
        while True:
            newest = later if beats_again and watched > 5.0 else beat
            step = looks.send([("other", newest, datetime.fromtimestamp(newest, UTC), 30.0, 3600.0)])
            assert isinstance(step, Wait)
            now, watched = now + step.seconds, watched + step.seconds
            next(looks)
    assert ended.value.value == (set() if beats_again else {"other"})
    assert beats_again or watched == pytest.approx(LONGEST_RECONNECT_SECONDS, abs=0.1)


async def test_a_dry_run_watches_and_writes_nothing_down(sweeper: Client, tables: Tables) -> None:
    tables.held_job(tables.worker("dead", beat_interval=0.1))
    row = "select * from graphile_worker._private_workers"
    before = tables.query(row)

    result = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(dry_run=True))

    assert result.worker_ids == ("dead",)
    assert tables.query(row) == before
