"""A sweep after a real worker process was killed in the middle of its jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import Client, SweepStaleWorkersOptions
from tests.support.crash_site import CrashSite
from tests.support.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman import SweepStaleWorkersResult

pytestmark = pytest.mark.program


@pytest.fixture
def site(database: str, tmp_path: Path) -> Iterator[CrashSite]:
    """A database and workers that are killed."""
    history = History(tmp_path / "history.jsonl")
    made = CrashSite(database, history)
    yield made
    made.close()
    history.close()


@pytest.mark.parametrize("prefetch", [None, 10])
@pytest.mark.parametrize("point", ["after_claim", "handler_running", "handler_done"])
async def test_the_next_worker_runs_what_a_killed_one_held_and_each_job_ends_once(
    site: CrashSite, point: str, prefetch: int | None
) -> None:
    await site.add(8, queues=[None, "a", "b"])
    dead = site.start(faults=f"{point}:kill", prefetch=prefetch)
    await dead.died()
    await site.quiet()
    held, left = site.jobs_of(dead), site.jobs()
    site.history.note("freed", worker=dead.first_id, jobs=held, claims=site.claims_of(dead))

    result = await sweep(site, dead.first_id)

    assert sorted(recovery.job_id for recovery in result.recoveries) == held
    assert site.locked_queues() == []
    following = site.start()
    await site.all_done()
    assert sorted(site.history.jobs("started", pid=following.pid)) == left
    site.check()


async def sweep(site: CrashSite, worker_id: str) -> SweepStaleWorkersResult:
    async with Client(site.dsn) as client:
        options = SweepStaleWorkersOptions(worker_ids=[worker_id], recovery_delay=timedelta())
        return await client.sweep_stale_workers(options)
