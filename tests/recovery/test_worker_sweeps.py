"""Workers sweep for others, call hooks, and delete old records."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.hooks import HookRegistry, JobRecovery, JobRecoveryResult
from ferryman.recovery import sweeping
from ferryman.recovery.observer import Dead
from ferryman.recovery.rhythm import Rhythm
from ferryman.recovery.sweep_backoff import FIRST_PAUSE_SECONDS, SweepBackoff
from ferryman.worker.duties import recovery_duty
from tests.support.fleet import idle_app
from tests.support.rhythms import PATIENT, QUICK, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from ferryman import SweepStaleWorkersResult
    from ferryman.database.steps import Steps
    from ferryman.recovery.sweep_plan import Sweep, SweepProgress
    from tests.support.fleet import Fleet
    from tests.support.tables import Tables

SECONDS_OF_WORK = 5.0
"""The time that a busy machine may need in addition."""


@pytest.mark.parametrize("recovery", [PATIENT, None], ids=["patient", "without a config"])
async def test_a_killed_worker_is_noticed_by_its_session_and_another_one_runs_its_job(
    fleet: Fleet, recovery: dict[str, Any] | None
) -> None:
    """Long before its silence would show it. The worker that sweeps calls the hooks."""
    killed, heir = await fleet.started(recovery, recovery, concurrency=1)
    gate = fleet.gate()
    [job] = await fleet.add(queue="a", gate=str(gate))
    if await fleet.until_started(job) == heir.first_id:
        killed, heir = heir, killed

    killed.kill()

    assert await fleet.until_started(job, 2) == heir.first_id
    assert [crash.reason for crash in fleet.crashes(job)] == ["session lost"]
    gate.touch()
    assert await fleet.until_settled(job) == heir.first_id
    [asked] = fleet.history.lines("asked")
    assert (asked["job"], asked["worker"], asked["previous"]) == (job, heir.first_id, killed.first_id)
    [told] = fleet.history.lines("interrupted")
    assert (told["job"], told["worker"], told["reason"]) == (job, killed.first_id, "worker_crashed")
    [recovered] = fleet.history.lines("recovered")
    assert (recovered["worker"], recovered["dead"], recovered["jobs"]) == (heir.first_id, [killed.first_id], 1)


@pytest.mark.realtime
async def test_a_hung_worker_is_found_by_its_silence_within_beat_threshold_and_sweep(fleet: Fleet) -> None:
    """Its session lasts. Recovery takes from the threshold to the sum of all three, and what the work takes."""
    hung, other = await fleet.started(PATIENT, QUICK)
    await fleet.until_beaten(other.first_id, 2)
    stopped_at = time.monotonic()
    hung.freeze()
    await fleet.until_swept(hung.first_id)
    seconds = time.monotonic() - stopped_at
    assert seconds > QUICK["sweep_threshold"] - QUICK["heartbeat_interval"]
    limit = QUICK["heartbeat_interval"] + QUICK["sweep_threshold"] + QUICK["sweep_interval"]
    assert seconds < limit + SECONDS_OF_WORK


async def test_the_background_sweeper_recovers_orphans_too(fleet: Fleet, tables: Tables) -> None:
    orphan = tables.held_job("ferryman-0123456789abcdef01", age="1 hour", queue_name="a")
    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of())):
        await until(lambda: tables.job(orphan)["locked_by"] is None, "the orphan is recovered")
    assert fleet.locked_queues() == []


async def test_recovery_ends_with_its_worker(fleet: Fleet) -> None:
    """Neither its thread nor any task of the loop continues."""
    tasks = asyncio.all_tasks()
    worker = worker_of(idle_app(fleet.dsn), recovery=recovery_of())
    async with running(worker):
        await until(lambda: fleet.workers() == [worker.worker_id], "it is registered")
        [beats] = [thread for thread in threading.enumerate() if thread.name == "ferryman beats"]
    assert asyncio.all_tasks() == tasks
    await until(lambda: not beats.is_alive(), "its thread has ended")


async def test_the_background_sweeper_runs_at_its_interval(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little sooner, so that workers which were started together do not stay together."""
    times: list[float] = []
    sweep_into = sweeping.sweep_into

    def timed(progress: SweepProgress, sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
        times.append(time.monotonic())
        return sweep_into(progress, sweep)

    monkeypatch.setattr(sweeping, "sweep_into", timed)
    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of())):
        await until(lambda: len(times) == 5, "five sweeps")
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) > 0.7 * QUICK["sweep_interval"]


async def test_a_job_that_a_hook_skips_is_asked_about_again_but_not_at_every_look(fleet: Fleet, tables: Tables) -> None:
    hooks, asked = HookRegistry(), []

    @hooks.on(JobRecovery)
    def skip(event: JobRecovery) -> JobRecoveryResult:
        asked.append(time.monotonic())
        return JobRecoveryResult.Skip()

    tables.held_job(tables.worker("dead", session_key=12345))
    config = {**PATIENT, "sweep_interval": FIRST_PAUSE_SECONDS}
    look = Rhythm.of(recovery_of(config).settings).look
    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of(config), hooks=hooks)):
        await until(lambda: len(asked) >= 2, "the hook is asked again")
    assert asked[1] - asked[0] > FIRST_PAUSE_SECONDS / 2 > look


def test_sweeps_in_vain_become_ever_rarer_up_to_the_interval() -> None:
    beat = datetime(2026, 1, 1, tzinfo=UTC)
    backoff, dead = SweepBackoff(60.0), Dead("w", beat, "session lost", 10.0)
    now, pauses = 1000.0, []
    for _ in range(7):
        assert backoff.is_worth_it(dead, now)
        backoff.swept(dead, now)
        begun = now
        while not backoff.is_worth_it(dead, now):
            now += 1.0
        pauses.append(now - begun)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    assert backoff.is_worth_it(Dead("w", beat + timedelta(seconds=1), "session lost", 10.0), now)


async def test_old_records_are_forgotten_every_hour(
    fleet: Fleet, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recovery_duty.SECONDS_BETWEEN_PRUNINGS == 3600
    monkeypatch.setattr(recovery_duty, "SECONDS_UNTIL_PRUNING", 0.2)
    monkeypatch.setattr(recovery_duty, "SECONDS_BETWEEN_PRUNINGS", 0.2)
    job = tables.add_job()["id"]
    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of())):
        for _ in range(2):
            tables.crashed_before(job, age="31 days")
            tables.crashed_before(job, age="29 days")
            await until(lambda: len(tables.crashes()) == 1, "the old crash is forgotten")
            tables.query("delete from graphile_worker._ferryman_crashes")


async def test_a_sweep_that_fails_is_not_the_last(
    fleet: Fleet, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the error is."""
    errors = iter([RuntimeError("broken")])
    sweep_into = sweeping.sweep_into

    def failing_at_first(progress: SweepProgress, sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
        for error in errors:
            raise error
        return sweep_into(progress, sweep)

    monkeypatch.setattr(sweeping, "sweep_into", failing_at_first)
    orphan = tables.held_job("ferryman-0123456789abcdef01", age="1 hour")
    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of())):
        await until(lambda: tables.job(orphan)["locked_by"] is None, "the orphan is recovered")
