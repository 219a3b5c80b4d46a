"""Worker processes that stop for a while, and come back to a world that has moved on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.test_dying_workers import POINTS
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.crash_site import CrashSite

pytestmark = pytest.mark.program


@pytest.mark.parametrize("prefetch", [None, 10], ids=["direct", "local queue"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_thawed_worker_cannot_settle_what_was_taken_from_it(
    site: CrashSite, point: str, prefetch: int | None
) -> None:
    await site.add(8, queues=[None, "a", "b"])
    frozen = site.start(faults=f"{point}:stop", prefetch=prefetch)
    await frozen.froze()
    await site.free(frozen)
    taken = site.history.lines("freed")[0]["jobs"]
    following = site.start()
    await site.all_done()

    frozen.thaw()

    await until(lambda: sorted(site.history.jobs("refused")) == taken, f"settlements of {taken} are refused")
    await until(lambda: {*taken} <= {*site.history.jobs("settled", pid=following.pid)}, "the other settles them")
    await site.all_done()
    site.check()


async def test_a_thawed_worker_that_still_owns_its_jobs_completes_them(site: CrashSite) -> None:
    jobs = await site.add(4, queues=[None, "a"])
    frozen = site.start(faults="handler_running:stop")
    await frozen.froze()
    other = site.start()
    await other.ready()

    frozen.thaw()

    await until(lambda: sorted(site.history.jobs("settled")) == jobs, "all jobs are settled")
    assert site.history.jobs("refused") == []
    site.check()


@pytest.mark.parametrize("gather_seconds", [0.0, 0.3])
async def test_a_worker_that_claims_again_what_it_lost_is_refused_for_the_lost_claim_only(
    site: CrashSite, gather_seconds: float
) -> None:
    """The fence is the time of the claim, not only who made it, even when both claims are settled at once."""
    [job] = await site.add(1, queues=["a"], gate=str(site.gate))
    worker = site.start(faults="handler_running:stop", gather_seconds=gather_seconds)
    await worker.froze()
    await site.free(worker)

    worker.thaw()
    await until(lambda: site.history.jobs("started") == [job, job], "the job is claimed again")
    site.open_gate()

    await until(lambda: site.history.jobs("refused") == [job], "the lost claim is refused")
    await until(lambda: site.history.jobs("settled") == [job], "the new claim settles the job")
    await site.all_done()
    site.check()


async def test_a_worker_told_to_end_finishes_what_runs_and_leaves_the_rest_alone(site: CrashSite) -> None:
    jobs = await site.add(6, queues=[None], gate=str(site.gate))
    worker = site.start()
    await until(lambda: len(site.history.jobs("started")) == 3, "three jobs run")

    worker.signal(signal.SIGTERM)
    site.open_gate()

    assert await worker.died() == 0
    assert sorted(site.history.jobs("settled")) == sorted(site.history.jobs("ended"))
    assert site.jobs() == sorted({*jobs} - {*site.history.jobs("settled")})
    assert site.jobs_of(worker) == []
