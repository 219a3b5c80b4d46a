"""A sweep after a real worker process was killed in the middle of its jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import Client, SweepStaleWorkersOptions
from tests.support.crash_site import Scene
from tests.support.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman import SweepStaleWorkersResult


@pytest.fixture
def scene(database: str, tmp_path: Path) -> Iterator[Scene]:
    """A database and workers that are killed."""
    history = History(tmp_path / "history.jsonl")
    made = Scene(database, history)
    yield made
    made.close()
    history.close()


@pytest.mark.parametrize("prefetch", [None, 10])
@pytest.mark.parametrize("point", ["after_claim", "handler_running", "handler_done"])
async def test_the_next_worker_runs_what_a_killed_one_held_and_each_job_ends_once(
    scene: Scene, point: str, prefetch: int | None
) -> None:
    await scene.add(8, queues=[None, "a", "b"])
    dead = scene.start(faults=f"{point}:kill", prefetch=prefetch)
    await dead.died()
    await scene.quiet()
    held, left = scene.jobs_of(dead), scene.jobs()
    scene.history.note("freed", worker=dead.worker_id, jobs=held, claims=scene.claims_of(dead))

    result = await sweep(scene, dead.worker_id)

    assert sorted(recovery.job_id for recovery in result.recoveries) == held
    assert scene.locked_queues() == []
    following = scene.start()
    await scene.all_done()
    assert sorted(scene.history.jobs("started", pid=following.pid)) == left
    scene.check()


async def sweep(scene: Scene, worker_id: str) -> SweepStaleWorkersResult:
    async with Client(scene.dsn) as client:
        options = SweepStaleWorkersOptions(worker_ids=[worker_id], recovery_delay=timedelta())
        return await client.sweep_stale_workers(options)
