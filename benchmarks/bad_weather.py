"""Measures how soon a dead worker's job is unlocked when network, database or machine misbehave, and whether a live
worker loses a job.

`python -m benchmarks.bad_weather`. Each scene has a database of its own, real worker processes and the defaults of
recovery. All scenes go on at once, so the whole takes as long as the longest, about seven minutes. The time goes from
the death, or from whatever stands for it, to the moment at which the job is unlocked. A false death is a worker that
was swept and should not have been.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import struct
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.support.fleet import Fleet, idle_app
from tests.support.history import History
from tests.support.network import Fate, Proxy
from tests.support.workers import run_all, running, worker_of

import ferryman
from benchmarks.failover import Pair
from benchmarks.kill.__main__ import fresh_database, private_server
from ferryman import Client, WorkerRecoveryConfig
from ferryman.database.pools import CONNECT_TIMEOUT_SECONDS
from ferryman.database.retrying import LONGEST_PAUSE_SECONDS
from ferryman.hooks import HookRegistry, JobInterrupted
from ferryman.queries.sweep import IDLE_SECONDS
from ferryman.recovery.config import RecoverySettings
from ferryman.worker.options import WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.support.processes import WorkerProgram

DEFAULTS = RecoverySettings()
GRACE = 10.0
THRESHOLD = DEFAULTS.sweep_threshold.total_seconds()
PATIENCE_SECONDS = 600.0
RECOVERY: Mapping[str, Any] = {"enabled": True}
AN_HOUR = 3600.0
KEEPALIVE_SECONDS = 14.0
"""After this long without an answer from the worker's machine the server ends the session; prepare_beat_session.sql."""
SECONDS_TO_MEASURE = 60.0
"""Within so long, workers know how slow the slowest network is: eight looks must have been slow."""
SECONDS_BETWEEN_LOOKS = 0.25
"""Not more often: the loop of this program carries the networks of all scenes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scene. Without a time, no worker died."""

    seconds: float | None
    false_deaths: int


class Scene:
    """A database, its workers, and the network between them."""

    def __init__(self, fleet: Fleet, network: Proxy) -> None:
        self.fleet = fleet
        self.network = network
        self._dead: set[str] = set()

    async def start(
        self, recovery: Mapping[str, Any] = RECOVERY, *, is_far: bool = False, **options: Any
    ) -> WorkerProgram:
        """Start a worker with one slot. One that is far away connects through the simulated network."""
        defaults = {
            "poll_seconds": WorkerOptions().poll_interval.total_seconds(),
            "connect_seconds": CONNECT_TIMEOUT_SECONDS,
            "longest_pause_seconds": LONGEST_PAUSE_SECONDS,
            "sweep_idle_seconds": IDLE_SECONDS,
        }
        worker = self.fleet.start(
            recovery,
            dsn=self.network.dsn if is_far else None,
            concurrency=1,
            fresh=True,
            faults=None,
            **{**defaults, **options},
        )
        await _when(lambda: self.fleet.history.lines("ready", pid=worker.pid))
        return worker

    async def hold(self, worker: WorkerProgram, gate: str = "never") -> int:
        """Add a job that this worker runs until the gate opens. The others must be busy, or not there yet."""
        [job] = await self.fleet.add(gate=str(self.fleet.gate(gate)))
        await _when(lambda: self.fleet.history.lines("started", job=job))
        assert self.fleet.job(job).locked_by == worker.first_id
        return job

    def kill(self, worker: WorkerProgram) -> None:
        self._dead.add(worker.first_id)
        worker.kill()

    def expect_death(self, worker: WorkerProgram) -> None:
        """Note that a sweep of this worker is right, so that it does not count as a false death."""
        self._dead.add(worker.first_id)

    async def until_free(self, job: int, worker: WorkerProgram) -> float:
        """Wait until the job no longer belongs to this worker, and return the seconds."""
        return await _when(lambda: self.fleet.job(job).locked_by != worker.first_id)

    def outcome(self, seconds: float | None) -> Outcome:
        return Outcome(seconds, len({*self.fleet.lost()} - self._dead))


async def _when(is_true: Callable[[], Any]) -> float:
    begun = time.monotonic()
    while not is_true():
        if time.monotonic() > begun + PATIENCE_SECONDS:
            return float("inf")
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    return time.monotonic() - begun


def slow_answers(round_trip: float) -> Callable[[Scene], Awaitable[Outcome]]:
    """Make a scene in which the database answers every worker only after `round_trip` seconds."""

    async def scene(scene: Scene) -> Outcome:
        victim = await scene.start(is_far=True)
        job = await scene.hold(victim)
        await scene.start(is_far=True)
        scene.network.delay_seconds = round_trip / 2
        await asyncio.sleep(SECONDS_TO_MEASURE)
        scene.kill(victim)
        return scene.outcome(await scene.until_free(job, victim))

    return scene


async def blocked_loop(scene: Scene) -> Outcome:
    """The worker that watches computes on its event loop for an hour."""
    await scene.start()
    await scene.fleet.add("compute", seconds=AN_HOUR)
    await asyncio.sleep(5.0)
    victim = await scene.start()
    job = await scene.hold(victim)
    await scene.start()
    scene.kill(victim)
    return scene.outcome(await scene.until_free(job, victim))


async def hung_hook(scene: Scene) -> Outcome:
    """A hook of the only sweeper hangs since the sweep before."""
    hooks = HookRegistry()

    @hooks.on(JobInterrupted)
    async def hang(_: JobInterrupted) -> None:
        await asyncio.Event().wait()

    config = WorkerRecoveryConfig(enabled=True)
    async with running(worker_of(idle_app(scene.fleet.dsn), recovery=config, hooks=hooks)):
        seconds = 0.0
        for _ in range(2):
            victim = await scene.start()
            job = await scene.hold(victim)
            scene.kill(victim)
            seconds = await scene.until_free(job, victim)
            scene.fleet.rows("delete from graphile_worker._private_jobs where id = %s", job)
    return scene.outcome(seconds)


async def short_lives(scene: Scene) -> Outcome:
    """Only `run_once()`, every five seconds."""
    victim = await scene.start()
    job = await scene.hold(victim)
    scene.kill(victim)
    freed = asyncio.create_task(scene.until_free(job, victim))
    while not freed.done():
        await run_all(idle_app(scene.fleet.dsn), recovery=WorkerRecoveryConfig(enabled=True))
        await asyncio.sleep(5.0)
    return scene.outcome(freed.result())


async def failover(scene: Scene) -> Outcome:
    """Nobody reaches the database for longer than the threshold; then a sweep by hand, at once. One worker has died."""
    victim = await scene.start(is_far=True)
    job = await scene.hold(victim)
    survivor = await scene.start(is_far=True)
    kept = await scene.hold(survivor)
    scene.network.new_connections = Fate.REFUSED
    scene.network.reset()
    await asyncio.sleep(THRESHOLD + 20.0)
    scene.kill(victim)
    scene.network.new_connections = Fate.WORK
    async with Client(scene.fleet.dsn) as client:
        sweeping = asyncio.create_task(client.sweep_stale_workers())
        seconds = await scene.until_free(job, victim)
        await sweeping
    assert scene.fleet.job(kept).locked_by == survivor.first_id
    return scene.outcome(seconds)


async def promoted_standby(scene: Scene) -> Outcome:
    """The primary crashes and its standby is promoted after longer than the threshold; then a sweep by hand, at once.

    The standby has run all the time, so that its start does not explain why heartbeats are old. One worker has died.
    """
    pair = Pair()
    await asyncio.to_thread(pair.__enter__)
    try:
        scene.network.lead_to(pair.primary)
        scene.fleet.move(pair.primary)
        victim = await scene.start(is_far=True)
        job = await scene.hold(victim)
        survivor = await scene.start(is_far=True)
        kept = await scene.hold(survivor)
        await asyncio.to_thread(pair.follow)
        scene.network.new_connections = Fate.REFUSED
        scene.network.reset()
        pair.crash()
        scene.fleet.move(pair.standby)
        await asyncio.sleep(THRESHOLD + 20.0)
        scene.kill(victim)
        await asyncio.to_thread(pair.promote)
        scene.network.lead_to(pair.standby)
        scene.network.new_connections = Fate.WORK
        async with Client(pair.standby) as client:
            sweeping = asyncio.create_task(client.sweep_stale_workers())
            seconds = await scene.until_free(job, victim)
            await sweeping
        assert scene.fleet.job(kept).locked_by == survivor.first_id
        return scene.outcome(seconds)
    finally:
        scene.fleet.close()
        await asyncio.to_thread(pair.__exit__, None, None, None)


async def suspended_machine(scene: Scene) -> Outcome:
    """A worker's machine sleeps until others have its jobs. It wakes up without a network, and with a free slot.

    It had claimed jobs ahead. CLOCK_MONOTONIC has not moved meanwhile: by that clock the worker has just proved that it
    lives. It must not start one of them.
    """
    standstill = scene.fleet.history.path.with_name("standstill")
    standstill.write_bytes(struct.pack("d", 0.0))
    await scene.hold(await scene.start())
    victim = await scene.start(is_far=True, prefetch=5, standstill=str(standstill))
    job = await scene.hold(victim, "morning")
    ahead = await scene.fleet.add(gate=str(scene.fleet.gate("never")), count=4)
    await _when(lambda: all(scene.fleet.job(one).locked_by == victim.first_id for one in ahead))
    # At once: those that wait at the next heartbeat could not start without a word to the database anyway.
    victim.freeze()
    await victim.froze()
    begun = time.monotonic()
    scene.expect_death(victim)
    await asyncio.sleep(KEEPALIVE_SECONDS)
    scene.network.new_connections = Fate.REFUSED
    scene.network.reset()
    await scene.until_free(job, victim)
    seconds = time.monotonic() - begun
    scene.fleet.gate("morning").touch()
    standstill.write_bytes(struct.pack("d", time.monotonic() - begun))
    victim.thaw()
    await _when(lambda: scene.fleet.history.lines("ended", job=job, worker=victim.first_id))
    await asyncio.sleep(GRACE)
    scene.network.new_connections = Fate.WORK
    await _when(lambda: victim.logged("worker_swept"))
    assert not {*scene.fleet.history.jobs("started", worker=victim.first_id)} & {*ahead}
    return scene.outcome(seconds)


async def stopped_process(scene: Scene) -> Outcome:
    """SIGSTOP: the session of the worker lasts."""
    victim = await scene.start()
    job = await scene.hold(victim)
    await scene.start()
    scene.expect_death(victim)
    victim.freeze()
    return scene.outcome(await scene.until_free(job, victim))


def split(seconds: float, *, grace: float | None = GRACE) -> Callable[[Scene], Awaitable[Outcome]]:
    """Make a scene in which one worker is cut off for a while."""

    async def scene(scene: Scene) -> Outcome:
        recovery = {**RECOVERY, "lost_session_grace": grace}
        cut = await scene.start(recovery, is_far=True)
        job = await scene.hold(cut)
        await scene.start(recovery)
        scene.network.new_connections = Fate.REFUSED
        scene.network.reset()
        is_fatal = grace is not None and seconds > grace
        if is_fatal:
            scene.expect_death(cut)
        freed = asyncio.create_task(scene.until_free(job, cut))
        await asyncio.sleep(seconds)
        scene.network.new_connections = Fate.WORK
        await asyncio.sleep(2 * GRACE)
        if is_fatal:
            return scene.outcome(await freed)
        freed.cancel()
        return scene.outcome(None)

    return scene


SCENES: Mapping[str, Callable[[Scene], Awaitable[Outcome]]] = {
    "killed, answers at once": slow_answers(0.0),
    "killed, answers after 40 ms": slow_answers(0.04),
    "killed, answers after 300 ms": slow_answers(0.3),
    "killed, answers after 2,700 ms": slow_answers(2.7),
    "killed, the loop of the watcher is blocked": blocked_loop,
    "killed, a hook hangs since the last sweep": hung_hook,
    "killed, only run_once() every 5 s": short_lives,
    f"database away for {THRESHOLD + 20:g} s, one killed, sweep by hand at once": failover,
    f"primary dead for {THRESHOLD + 20:g} s, standby promoted, one killed, sweep by hand at once": promoted_standby,
    "stopped (SIGSTOP)": stopped_process,
    "machine suspended": suspended_machine,
    "cut off for 5 s": split(5.0),
    "cut off for 60 s": split(60.0),
    "cut off for 60 s, lost_session_grace=None": split(60.0, grace=None),
}


async def play(server: str, number: int, name: str) -> Outcome:
    """Play one scene, from its database to its outcome."""
    async with AsyncExitStack() as stack:
        database = fresh_database(server, f"weather_{number}")
        dsn = await asyncio.to_thread(database.__enter__)  # the loop carries the networks of the others
        stack.push_async_callback(asyncio.to_thread, database.__exit__, None, None, None)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferryman-proof-")))
        history = History(folder / "history.jsonl")
        stack.callback(history.close)
        fleet = Fleet(dsn, history)
        stack.callback(fleet.close)
        network = await stack.enter_async_context(Proxy(dsn))
        outcome = await SCENES[name](Scene(fleet, network))
        print(f"{name}: {outcome}", file=sys.stderr, flush=True)
        return outcome


def render(outcomes: Mapping[str, Outcome]) -> str:
    """Return the table of all outcomes."""
    width = max(map(len, outcomes))
    lines = [f"{'':<{width}}  seconds until its job is free  false deaths"]
    for name, outcome in outcomes.items():
        seconds = "nobody died" if outcome.seconds is None else f"{outcome.seconds:.1f}"
        lines.append(f"{name:<{width}}  {seconds:>29}  {outcome.false_deaths:>12}")
    return "\n".join(lines)


async def measure(server: str, names: list[str]) -> dict[str, Outcome]:
    """Play all scenes at once."""
    outcomes = await asyncio.gather(*(play(server, number, name) for number, name in enumerate(names)))
    return dict(zip(names, outcomes, strict=True))


def main() -> int:
    options = _options()
    names = [name for name in SCENES if options.only in name]
    with private_server(by_tcp=True) as server:
        outcomes = asyncio.run(measure(server, names))
        with psycopg.connect(server) as connection:
            version = connection.info.parameter_status("server_version")
    print(f"Recovery in bad weather, with the defaults: ferryman {ferryman.__version__}, ", end="")
    print(f"Python {platform.python_version()}, PostgreSQL {version}\n")
    print(render(outcomes))
    is_bad = any(outcome.false_deaths or outcome.seconds == float("inf") for outcome in outcomes.values())
    return 1 if is_bad else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure recovery in bad weather.")
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
