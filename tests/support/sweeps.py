"""Sweeps as workers make them, with what they have observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.database.sessions import AsyncSession
from ferryman.hooks import HookRegistry
from ferryman.recovery import sweeping
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.observer import Dead
from ferryman.recovery.sweep_plan import Sweep
from ferryman.recovery.sweeping import sweep_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from ferryman import Client
    from ferryman.database.steps import Steps
    from ferryman.recovery.observer import Reason
    from ferryman.recovery.sweep_results import SweepStaleWorkersResult
    from tests.support.tables import Tables


async def sweep_as_worker(
    client: Client, *, hooks: HookRegistry | None = None, **given: Any
) -> SweepStaleWorkersResult:
    """Sweep as a worker does, with what it has observed."""
    settings = WorkerRecoveryConfig(**given.pop("config", {})).settings
    sweep = Sweep(
        schema_name="graphile_worker",
        settings=settings,
        recovered_by="sweeper",
        hooks=hooks or HookRegistry(),
        **given,
    )
    return await AsyncSession(lambda: client.pool, client.schema).run(sweep_once(sweep))


def watch_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sweeps by hand go by the age of heartbeats alone. test_sweeping_by_hand.py shows that they watch."""

    def at_once(suspects: Mapping[str, int], _clock: object, *, notes: bool) -> Steps[set[str]]:
        yield from ()
        return {*suspects}

    monkeypatch.setattr(sweeping, "still_silent", at_once)


def seen(tables: Tables, worker_id: str, reason: Reason = "session lost", silent_for: float = 10.0) -> Dead:
    """What a worker has observed of another one."""
    (row,) = tables.query("select last_heartbeat_at from graphile_worker._private_workers where id = %s", worker_id)
    return Dead(worker_id, row["last_heartbeat_at"], reason, silent_for)
