"""Worker processes that stop for a while, and come back to a world that has moved on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.test_dying_workers import POINTS
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.crash_site import Scene


@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_thawed_worker_cannot_settle_what_was_taken_from_it(
    scene: Scene, point: str, prefetch: int | None
) -> None:
    await scene.add(8, queues=[None, "a", "b"])
    frozen = scene.start(faults=f"{point}:stop", prefetch=prefetch)
    await frozen.froze()
    await scene.free(frozen)
    taken = scene.history.lines("freed")[0]["jobs"]
    following = scene.start()
    await scene.all_done()

    frozen.thaw()

    await until(lambda: sorted(scene.history.jobs("refused")) == taken, f"settlements of {taken} are refused")
    await until(lambda: {*taken} <= {*scene.history.jobs("settled", pid=following.pid)}, "the other settles them")
    await scene.all_done()
    scene.check()


async def test_a_thawed_worker_that_still_owns_its_jobs_completes_them(scene: Scene) -> None:
    jobs = await scene.add(4, queues=[None, "a"])
    frozen = scene.start(faults="handler_running:stop")
    await frozen.froze()
    other = scene.start()
    await other.ready()

    frozen.thaw()

    await until(lambda: sorted(scene.history.jobs("settled")) == jobs, "all jobs are settled")
    assert scene.history.jobs("refused") == []
    scene.check()


@pytest.mark.parametrize("gather_seconds", [0.0, 0.3])
async def test_a_worker_that_claims_again_what_it_lost_is_refused_for_the_lost_claim_only(
    scene: Scene, gather_seconds: float
) -> None:
    """The fence is the time of the claim, not only who made it, even when both claims are settled at once."""
    [job] = await scene.add(1, queues=["a"], gate=str(scene.gate))
    worker = scene.start(faults="handler_running:stop", gather_seconds=gather_seconds)
    await worker.froze()
    await scene.free(worker)

    worker.thaw()
    await until(lambda: scene.history.jobs("started") == [job, job], "the job is claimed again")
    scene.open_gate()

    await until(lambda: scene.history.jobs("refused") == [job], "the lost claim is refused")
    await until(lambda: scene.history.jobs("settled") == [job], "the new claim settles the job")
    await scene.all_done()
    scene.check()


async def test_a_worker_told_to_end_finishes_what_runs_and_leaves_the_rest_alone(scene: Scene) -> None:
    jobs = await scene.add(6, queues=[None], gate=str(scene.gate))
    worker = scene.start()
    await until(lambda: len(scene.history.jobs("started")) == 3, "three jobs run")

    worker.signal(signal.SIGTERM)
    scene.open_gate()

    assert await worker.died() == 0
    assert sorted(scene.history.jobs("settled")) == sorted(scene.history.jobs("ended"))
    assert scene.jobs() == sorted({*jobs} - {*scene.history.jobs("settled")})
    assert scene.jobs_of(worker) == []
