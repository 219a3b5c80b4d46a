"""Sends a worker's heartbeats, and recovers the jobs of dead workers.

Heartbeats come from a thread (`ferryman.recovery.beats`), which also watches other workers. It hands the dead ones it
finds to the event loop, where their jobs are recovered on the worker's own connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import time
from typing import TYPE_CHECKING, Any

import ferryman
from ferryman.database.retrying import Retrying
from ferryman.database.timed import TimedDatabase
from ferryman.hooks.reporting import Teller
from ferryman.queries.attempt import prune_progress
from ferryman.queries.beat import LockHolder, list_lock_holders
from ferryman.recovery.beats import Beats
from ferryman.recovery.membership import worker_metadata
from ferryman.recovery.observation_log import HeldLock
from ferryman.recovery.policies import own_policies, store_policies
from ferryman.recovery.rhythm import Rhythm
from ferryman.recovery.sweep_backoff import SweepBackoff
from ferryman.worker.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ferryman.client import Client
    from ferryman.hooks import HookRegistry
    from ferryman.recovery.config import RecoverySettings
    from ferryman.recovery.observer import Dead
    from ferryman.recovery.safety_window import SafetyWindow
    from ferryman.recovery.sweep_results import SweepStaleWorkersResult
    from ferryman.tasks import Task
    from ferryman.traces import Tracing
    from ferryman.worker.duties.worker_state import StateRecord
    from ferryman.worker.identity import Identity
    from ferryman.worker.running.slots import Slots
    from ferryman.worker.source import JobSource

logger = logging.getLogger("ferryman.recovery")

SWEEP_SECONDS = 300.0
"""How long a sweep may take. One that is cut short has recovered some jobs; the next one recovers the others."""
SECONDS_HELD = 60.0
"""After another session has held the sweep lock for this long, the log names it."""
SECONDS_UNTIL_PRUNING = 60.0
"""Counted from the start: the records of workers that run for less than an hour must be deleted too."""
SECONDS_BETWEEN_PRUNINGS = 3600.0


class RecoveryDuty:
    """Heartbeats and sweeps of one worker, from its registration to its end.

    window: how long others cannot have declared this worker dead
    state: what the worker is doing, stored with each heartbeat
    slots, source: lose their claims when this worker is declared dead
    tracing: reports the attempts that ended with their worker
    """

    def __init__(
        self,
        client: Client,
        identity: Identity,
        settings: RecoverySettings,
        window: SafetyWindow,
        *,
        tasks: Iterable[Task[..., Any]],
        hooks: HookRegistry,
        prefetches: bool,
        state: StateRecord,
        slots: Slots,
        source: JobSource,
        tracing: Tracing | None = None,
    ) -> None:
        self._client = client
        self._database = TimedDatabase(client.pool, client.schema, SWEEP_SECONDS)
        self._identity = identity
        self._settings = settings
        self._tasks = [*tasks]
        self._hooks = hooks
        self._slots = slots
        self._source = source
        self._tracing = tracing
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm()
        self._registered = asyncio.Event()
        self._dead: dict[str, Dead] = {}
        self._retrying = Retrying("recovering the jobs of dead workers", logger=logger)
        self._sweep_backoff = SweepBackoff(settings.sweep_interval.total_seconds())
        self._teller = Teller(hooks)
        self._held_sweeps = HeldLock(
            "the advisory lock of sweeps", "no worker can recover the jobs of dead workers", time.monotonic
        )
        metadata = worker_metadata(
            settings,
            version=ferryman.__version__,
            tasks=[name for task in self._tasks for name in task.identifiers],
            concurrency=slots.concurrency,
            prefetches=prefetches,
            policies=own_policies(self._tasks),
        )
        self._beats = Beats(
            client.address,
            client.schema,
            worker_id=identity.id,
            metadata=metadata,
            rhythm=Rhythm.of(settings),
            on_swept=self._was_swept,
            on_registered=lambda _: self._on_loop(self._registered.set),
            on_dead=self._found_dead,
            state=state.take,
            window=window,
        )

    def begin(self) -> None:
        """Connect and register, on the heartbeat thread."""
        self._beats.start()

    async def registered(self) -> None:
        """Return when the worker is registered, and the crash policies of its tasks are stored."""
        await self._database.run(store_policies(self._tasks))
        await self._registered.wait()

    async def close(self, *, has_settled_all: bool) -> None:
        """Deregister the worker. If it still holds jobs it stays registered, so that a sweep recovers them."""
        await self._teller.close()
        await asyncio.to_thread(self._beats.close, deregister=has_settled_all)

    async def run(self) -> None:
        """Recover the jobs of dead workers, until cancelled."""
        # Not when the first worker is found dead: a program that was upgraded meanwhile must not mix two releases.
        import ferryman.recovery.sweeping  # noqa: F401, PLC0415 - nor before the first claim, which does not need it

        interval = self._settings.sweep_interval.total_seconds()
        next_sweep = time.monotonic() + _about(interval)
        while True:
            await self._alarm.wait(max(0.0, next_sweep - time.monotonic()))
            try:
                if self._dead:
                    await self._sweep([*self._dead.values()], finds_orphans=False)
                if next_sweep <= time.monotonic():
                    next_sweep = time.monotonic() + _about(interval)
                    if self._is_in_charge:
                        await self._sweep([], finds_orphans=True)
            except Exception as error:  # noqa: BLE001 - after any error in one sweep, the next one must come
                await asyncio.sleep(self._retrying.pause_after(error))
            else:
                self._retrying.is_over()

    async def prune(self) -> None:
        """Delete old records every hour, until cancelled. Apart from sweeps, since many records take a while."""
        from ferryman.recovery import retention  # noqa: PLC0415 - as above

        retrying = Retrying("deleting old records", logger=logger)
        await asyncio.sleep(_about(SECONDS_UNTIL_PRUNING))
        while True:
            try:
                if self._is_in_charge:
                    await self._database.run(retention.prune(self._client.schema.name, self._settings))
                    await self._database.fetch(prune_progress())
            except Exception as error:  # noqa: BLE001 - after any error, there is a next time
                retrying.pause_after(error)
            else:
                retrying.is_over()
            await asyncio.sleep(_about(SECONDS_BETWEEN_PRUNINGS))

    @property
    def _is_in_charge(self) -> bool:
        """True if this worker does the work of one worker per schema: as the watcher, or if only heartbeats count."""
        return self._beats.is_watching or self._beats.goes_by_beats

    async def _sweep(self, observed: Sequence[Dead], *, finds_orphans: bool) -> None:
        result = await self._carry_out(observed, finds_orphans=finds_orphans)
        for dead in observed:
            if self._dead.get(dead.worker_id) is dead:
                del self._dead[dead.worker_id]
            if not result.is_already_running:
                self._sweep_backoff.swept(dead, time.monotonic())
        self._beats.attended(dead.death for dead in observed)
        await self._follow_lock(is_held=result.is_already_running)

    async def sweep_by_age(self) -> bool:
        """Sweep as by hand, for a worker that runs too briefly to observe others. True if jobs were recovered."""
        try:
            result = await self._carry_out(None, finds_orphans=True)
        except Exception as error:  # noqa: BLE001 - the jobs that are due were run all the same
            self._retrying.pause_after(error)
            return False
        return result.recovered_count > 0

    async def _carry_out(self, observed: Sequence[Dead] | None, *, finds_orphans: bool) -> SweepStaleWorkersResult:
        from ferryman.recovery.sweep_plan import Sweep, SweepProgress  # noqa: PLC0415 - see `run`
        from ferryman.recovery.sweeping import sweep_into  # noqa: PLC0415 - see `run`

        sweep = Sweep(
            schema_name=self._client.schema.name,
            settings=self._settings,
            recovered_by=self._identity.id,
            hooks=self._hooks,
            observed=observed,
            finds_orphans=finds_orphans,
            tracing=self._tracing,
        )
        progress = SweepProgress()
        try:
            result = await self._database.run(sweep_into(progress, sweep))
        finally:
            self._teller.tell(*progress.events)
        if result.recovered_count:
            self._source.wake()  # we may run them ourselves, and behind a pooler no notification arrives
        return result

    async def _follow_lock(self, *, is_held: bool) -> None:
        """Log who holds the sweep lock, if it is held for long: nothing is recovered meanwhile."""
        if not is_held:
            self._held_sweeps.is_free()
        elif self._held_sweeps.is_held(SECONDS_HELD):
            for row in await self._database.fetch(list_lock_holders(self._client.schema)):
                holder = LockHolder(*row)
                if holder.lock == "sweep":
                    self._held_sweeps.name(holder)

    def _was_swept(self, _: str) -> str:
        """Take a new id, on the heartbeat thread. Claims of the old id can no longer be settled."""
        new = self._identity.renew()
        self._on_loop(self._lose_claims)
        return new

    def _lose_claims(self) -> None:
        """This worker was declared dead: drop every claim of its old id. Their outcomes would be refused."""
        self._slots.lose_claims_of_other_ids(self._identity.id)
        self._source.give_back()

    def _found_dead(self, dead: Sequence[Dead]) -> None:
        """Hand dead workers to the event loop. Called on the heartbeat thread."""
        self._on_loop(functools.partial(self._take_dead, [*dead]))

    def _take_dead(self, dead: Sequence[Dead]) -> None:
        """Sweep these dead workers, but not again soon after a sweep that changed nothing. Reports of them repeat."""
        now = time.monotonic()
        worth_it = [one for one in dead if self._sweep_backoff.is_worth_it(one, now)]
        self._dead.update({one.worker_id: one for one in worth_it})
        self._beats.attended(one.death for one in dead if one not in worth_it)
        if self._dead:
            self._alarm.ring()

    def _on_loop(self, act: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the worker at its end
            self._loop.call_soon_threadsafe(act)


def _about(seconds: float) -> float:
    """Return about this many seconds, so that workers that were started together do not all look together."""
    return seconds * random.uniform(0.8, 1.0)  # noqa: S311 - no secret depends on it
