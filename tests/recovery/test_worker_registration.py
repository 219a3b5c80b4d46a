"""Workers that register, those that do not, and what is left of them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import (
    App,
    Client,
    JobSpec,
    LocalQueueConfig,
    SweepStaleWorkersOptions,
    SyncClient,
    Worker,
    WorkerOptions,
    WorkerRecoveryConfig,
)
from ferryman import __version__ as version
from ferryman.cli.worker.plan import Plan
from ferryman.errors import InvalidJobError
from ferryman.hooks import HookRegistry, JobComplete, WorkerInit, WorkerShutdown, WorkerStart
from ferryman.recovery.rhythm import Rhythm
from ferryman.worker import life
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.rhythms import OFF, PATIENT, QUICK, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from ferryman import WorkerState
    from tests.support.fleet import Fleet


@pytest.fixture
def app(database: str) -> App:
    return App(database)


async def test_a_worker_registers_itself_and_says_what_it_is(app: App, client: Client) -> None:
    @app.task
    async def nothing() -> None:
        """Jobs of this task are never added."""

    app.task(nothing.function, identifier="payment", on_crash="fail", max_crashes=None)
    worker = worker_of(app, recovery=recovery_of(), concurrency=7, local_queue=LocalQueueConfig())
    async with running(worker):
        await until(lambda: inside(worker).is_alive and not inside(worker).may_be_dead, "the worker is registered")
        [active] = await client.list_active_workers(timedelta(minutes=1))
    assert active.worker_id == worker.worker_id
    assert worker.worker_id.startswith("ferryman-")
    assert not active.is_stale
    session_key = active.metadata["session_key"]
    assert active.metadata == {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version,
        "tasks": ["nothing", "payment"],
        "concurrency": 7,
        "prefetches": True,
        "suspects": True,
        "on_crash": "requeue",
        "max_crashes": 3,
        "policies": {"payment": {"on_crash": "fail", "max_crashes": None}},
        "beat_interval": QUICK["heartbeat_interval"],
        "session_key": session_key,
    }


async def test_a_worker_refreshes_its_heartbeat_at_the_interval(fleet: Fleet) -> None:
    [worker] = await fleet.started(QUICK)
    first = fleet.beats(worker.first_id)
    await fleet.until_beaten(worker.first_id, 4)
    elapsed = (fleet.beats(worker.first_id) - first).total_seconds()
    rhythm = Rhythm.of(recovery_of().settings)
    assert elapsed >= 4 * (rhythm.beat - rhythm.tick)


async def test_a_worker_that_ends_in_order_deregisters(fleet: Fleet) -> None:
    [worker] = await fleet.started(QUICK)
    assert fleet.workers() == [worker.first_id]
    assert await worker.end_in_order() == 0
    assert (fleet.workers(), fleet.lost()) == ([], [])


async def test_a_worker_is_registered_from_before_its_start_is_told_until_all_is_settled_and_told(
    fleet: Fleet, app: App
) -> None:
    """While a hook or a handler runs, others must see that the worker is alive."""
    seen: list[tuple[str, list[str], int]] = []
    hooks, has_run = HookRegistry(), asyncio.Event()

    def look(event: object) -> None:
        seen.append((type(event).__name__, fleet.workers(), len(fleet.jobs())))

    for event in (WorkerInit, WorkerStart, JobComplete, WorkerShutdown):
        hooks.on(event, look)

    @app.task
    async def work() -> None:
        has_run.set()

    await fleet.add("work")
    worker = worker_of(app, recovery=recovery_of(PATIENT), hooks=hooks, complete_job_batch_delay=timedelta(minutes=10))
    async with running(worker):
        await asyncio.wait_for(has_run.wait(), 60)

    registered = [worker.worker_id]
    assert seen == [
        ("WorkerInit", [], 1),
        ("WorkerStart", registered, 1),
        ("JobComplete", registered, 0),
        ("WorkerShutdown", registered, 0),
    ]
    assert fleet.workers() == []


async def test_a_worker_that_could_not_settle_stays_registered_and_its_job_is_recovered(
    fleet: Fleet, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "SECONDS_TO_FLUSH", 0.2)
    monkeypatch.setattr(life, "SECONDS_AFTER_HURRY", 0.2)
    started, gate = asyncio.Event(), asyncio.Event()

    @app.task
    async def wait() -> None:
        started.set()
        await gate.wait()

    [job] = await fleet.add("wait")
    worker = worker_of(app, recovery=recovery_of(PATIENT))
    with psycopg.connect(fleet.dsn) as blocker:
        async with running(worker):
            await started.wait()
            # Beats do not touch this table, so the worker is heard, but cannot settle.
            blocker.execute("lock table graphile_worker._private_jobs in exclusive mode")
            gate.set()
        assert fleet.workers() == [worker.worker_id]
    heir = App(fleet.dsn)
    heir.task(wait.function, identifier="wait")
    async with running(worker_of(heir, recovery=recovery_of(PATIENT))):
        await fleet.until_gone(job)
    assert fleet.lost() == [worker.worker_id]


async def test_a_worker_that_runs_once_registers_for_that_time(fleet: Fleet, app: App) -> None:
    seen: list[str] = []

    @app.task
    async def look() -> None:
        seen.extend(fleet.workers())

    await fleet.add("look")
    worker = worker_of(app, recovery=recovery_of())
    await worker.run_once()
    assert seen == [worker.worker_id]
    assert (fleet.workers(), fleet.lost()) == ([], [])


async def test_a_worker_without_recovery_registers_nothing_and_its_locks_are_never_swept(fleet: Fleet) -> None:
    [worker] = await fleet.started(OFF)
    [job] = await fleet.add(queue="a", gate=str(fleet.gate()))
    await fleet.until_started(job)
    assert worker.first_id.startswith("ferryman_unregistered-")
    assert fleet.workers() == []
    worker.kill()

    async with Client(fleet.dsn) as client:
        at_once = SweepStaleWorkersOptions(sweep_threshold=timedelta(microseconds=1))
        assert (await client.sweep_stale_workers(at_once)).worker_ids == ()
        assert fleet.job(job).locked_by == worker.first_id
        named = SweepStaleWorkersOptions(worker_ids=[worker.first_id])
        assert (await client.sweep_stale_workers(named)).recovered_count == 1


async def test_a_worker_that_is_given_no_config_registers_and_recovers(app: App, client: Client) -> None:
    worker = Worker(app, listen_os_shutdown_signals=False)
    async with running(worker):
        await until(lambda: inside(worker).is_alive and not inside(worker).may_be_dead, "the worker is registered")
        [active] = await client.list_active_workers()
    assert active.worker_id == worker.worker_id
    assert WorkerOptions().recovery == Plan(target="app").options(App(), hooks=HookRegistry()).recovery


def test_giving_a_config_that_sets_nothing_turns_recovery_off() -> None:
    assert not WorkerRecoveryConfig().settings.enabled
    for app in (App("postgresql://nowhere"), App("postgresql://nowhere", worker=WorkerOptions(concurrency=2))):
        worker = Worker(app, recovery=WorkerRecoveryConfig())
        assert worker.worker_id.startswith("ferryman_unregistered-")
    off = App(worker=WorkerOptions(recovery=WorkerRecoveryConfig()))
    assert not Plan(target="app").options(off, hooks=HookRegistry()).recovery.settings.enabled


def test_single_settings_of_a_worker_have_the_defaults_of_a_config_beside_them() -> None:
    minute = timedelta(minutes=1)
    app = App("postgresql://nowhere", worker=WorkerOptions(concurrency=2))
    for options in (WorkerOptions(sweep_interval=minute), Worker(app, sweep_interval=minute)._options):
        assert options.recovery == WorkerRecoveryConfig(sweep_interval=minute)


def test_a_worker_warns_of_settings_outside_of_the_usual_bounds(caplog: pytest.LogCaptureFixture) -> None:
    config = WorkerRecoveryConfig(sweep_threshold=timedelta(hours=4), sweep_interval=timedelta(minutes=15))
    with caplog.at_level(logging.WARNING, logger="ferryman.worker"):
        Worker(App("postgresql://nowhere"), recovery=config)
        Worker(App("postgresql://nowhere"), recovery=config.enabled(False))
        Worker(App("postgresql://nowhere"))
    assert len(logged(caplog, "recovery_setting_unusual")) == 2
    assert "recovery.sweep_threshold is 14400 s, outside the usual range of 1 s to 7200 s" in caplog.text


@pytest.mark.parametrize("name", ["heartbeat_interval", "sweep_interval", "sweep_threshold", "recovery_delay"])
def test_the_convenience_options_of_a_worker_also_enable_recovery(name: str) -> None:
    minute = timedelta(minutes=1)
    settings = WorkerOptions(**{name: minute}).recovery.settings
    assert settings.enabled
    assert getattr(settings, name) == minute


def test_convenience_options_change_single_settings_of_a_config() -> None:
    config = WorkerRecoveryConfig(max_crashes=5)
    settings = WorkerOptions(recovery=config, recovery_delay=timedelta()).recovery.settings
    assert (settings.max_crashes, settings.recovery_delay) == (5, timedelta())


def test_ferryman_worker_recovers_by_default_and_without_a_delay() -> None:
    settings = Plan(target="app").options(App(), hooks=HookRegistry()).recovery.settings
    assert settings.enabled
    assert settings.recovery_delay == timedelta()
    usual = WorkerRecoveryConfig(enabled=True).settings
    assert (settings.heartbeat_interval, settings.sweep_interval) == (usual.heartbeat_interval, usual.sweep_interval)


def test_ferryman_worker_leaves_an_application_its_own_choice() -> None:
    app = App(worker=WorkerOptions(recovery=WorkerRecoveryConfig(enabled=False)))
    assert not Plan(target="app").options(app, hooks=HookRegistry()).recovery.settings.enabled


def test_ferryman_worker_can_be_told_not_to_recover() -> None:
    app = App(worker=WorkerOptions(heartbeat_interval=timedelta(seconds=10)))
    assert not Plan(target="app", no_recovery=True).options(app, hooks=HookRegistry()).recovery.settings.enabled


async def test_a_worker_tells_what_it_does_with_each_beat(app: App, client: Client, database: str) -> None:
    held = asyncio.Event()

    @app.task
    async def run(how: str) -> None:
        if how == "hold":
            await held.wait()
        elif how == "fail":
            raise ValueError(how)

    for how in ("hold", "fail", "pass", "pass"):
        await client.add_raw_job("run", {"how": how}, JobSpec(max_attempts=1))
    worker = worker_of(app, recovery=recovery_of(), concurrency=3)

    def newest() -> WorkerState | None:
        with SyncClient(database) as asking:
            states = asking.list_worker_states(worker.worker_id, limit=1)
        return states[0] if states and (states[0].running, states[0].done, states[0].failed) == (1, 2, 1) else None

    async with running(worker):
        state = await until(newest, "a beat that tells of all four jobs")
        held.set()
    assert (state.worker_id, state.slots) == (worker.worker_id, 3)
    assert state.rss_bytes is None or state.rss_bytes > 1_000_000
    assert state.loop_lag is None or state.loop_lag < timedelta(minutes=1)
    assert {each.worker_id for each in await client.list_worker_states()} == {worker.worker_id}
    assert await client.list_worker_states("nobody") == []
    with pytest.raises(InvalidJobError, match="limit must be between 1 and"):
        await client.list_worker_states(limit=0)
