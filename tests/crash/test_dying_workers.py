"""Worker processes that end without a word."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from ferryman.worker import sync_points
from tests.support.processes import is_running
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.crash_site import CrashSite

pytestmark = pytest.mark.program

POINTS = ["after_claim", "handler_running", "handler_done", "settle_committed"]
EXIT_CODES = {"kill": -signal.SIGKILL, "exit": sync_points.EXIT_CODE}


@pytest.mark.parametrize(("fault", "prefetch"), [("kill", None), ("exit", None), ("kill", 10)])
@pytest.mark.parametrize("point", POINTS)
async def test_the_next_worker_runs_what_a_dead_one_left_and_nothing_else(
    site: CrashSite, point: str, fault: str, prefetch: int | None
) -> None:
    await site.add(8, queues=[None, "a", "b"])
    dead = site.start(faults=f"{point}:{fault}", prefetch=prefetch)
    assert await dead.died() == EXIT_CODES[fault]
    await site.free(dead)
    left = site.jobs()

    following = site.start()
    await site.all_done()

    assert sorted(site.history.jobs("started", pid=following.pid)) == left
    site.check()


async def test_a_job_whose_completion_was_written_does_not_run_again(site: CrashSite) -> None:
    """The worker dies before it reads the reply."""
    [job] = await site.add(1, queues=["a"])
    dead = site.start(faults="settle_committed:kill")
    await dead.died()

    assert site.jobs() == []
    assert site.locked_queues() == []
    assert site.history.jobs("started") == [job]


async def test_children_die_with_their_worker_and_their_jobs_run_again(site: CrashSite) -> None:
    payload = {"history": str(site.history.path), "gate": str(site.gate)}
    jobs = await site.add(3, queues=[None, "a"], task="work_in_child", **payload)
    dead = site.start()
    await until(lambda: len(site.history.jobs("started")) >= 2, "children run")
    children = [line["pid"] for line in site.history.lines("started")]

    dead.signal(signal.SIGKILL)
    await dead.died()

    await until(lambda: not any(is_running(pid) for pid in children), "the children are gone")
    site.open_gate()
    await site.free(dead)
    site.start()
    await site.all_done()
    assert sorted(site.history.jobs("ended")) == jobs
    site.check()


async def test_a_child_that_dies_fails_one_job_and_hurts_no_other(site: CrashSite) -> None:
    payload = {"history": str(site.history.path)}
    waiting = await site.add(2, task="work_in_child", gate=str(site.gate), **payload)
    worker = site.start(concurrency=3)
    await until(lambda: len(site.history.jobs("started")) == 2, "two children run")

    [dying] = await site.add(1, task="work_in_child", max_attempts=1, dies=True, **payload)

    await until(lambda: site.history.jobs("failed") == [dying], "the job of the dead child fails")
    [line] = site.history.lines("failed")
    assert line["error"].startswith("WorkerCrashed: ")
    [after] = await site.add(1, task="work_in_child", **payload)
    await until(lambda: site.history.jobs("settled") == [after], "another child takes its place")
    site.open_gate()
    await until(lambda: sorted(site.history.jobs("settled")) == [*waiting, after], "the others end")
    assert site.jobs_of(worker) == []


async def test_a_handler_that_ends_the_program_from_below_takes_no_job_along(site: CrashSite) -> None:
    """Nothing can stop an exit from a task of the handler's own; all jobs go back before the process ends."""
    await site.add(2, queues=["a", None], gate=str(site.gate))
    leaving = site.start(concurrency=3)
    await until(lambda: len(site.history.jobs("started")) == 2, "other jobs run")
    await site.add(1, task="leave")

    assert await leaving.died() == 3

    assert site.jobs_of(leaving) == []
    assert site.locked_queues() == []


async def test_processes_that_a_handler_forks_end_and_do_not_disturb_its_worker(site: CrashSite) -> None:
    """They inherit the worker's connections, must not say goodbye on them, and must not go on as a second worker."""
    others = await site.add(20, queues=[None, "a"])
    forking = await site.add(2, task="fork")
    worker = site.start()

    await until(lambda: sorted(site.history.jobs("settled")) == sorted(others + forking), "all jobs are settled")

    assert [line["codes"] for line in site.history.lines("forked")] == [[3, 0], [3, 0]]
    assert worker.failures == []
