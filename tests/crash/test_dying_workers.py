"""Worker processes that end without a word."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from ferryman.worker import sync_points

if TYPE_CHECKING:
    from .scene import Scene

POINTS = ["after_claim", "handler_running", "handler_done", "settle_committed"]
EXIT_CODES = {"kill": -signal.SIGKILL, "exit": sync_points.EXIT_CODE}


@pytest.mark.parametrize("fault", EXIT_CODES)
@pytest.mark.parametrize("point", POINTS)
async def test_the_next_worker_runs_what_a_dead_one_left_and_nothing_else(scene: Scene, point: str, fault: str) -> None:
    await scene.add(8, queues=[None, "a", "b"])
    dead = scene.start(faults=f"{point}:{fault}")
    assert await dead.died() == EXIT_CODES[fault]
    await scene.free(dead)
    left = scene.jobs()

    following = scene.start()
    await scene.all_done()

    assert sorted(scene.history.jobs("started", pid=following.pid)) == left
    scene.check()


async def test_a_job_whose_completion_was_written_does_not_run_again(scene: Scene) -> None:
    """The worker dies before it reads the reply."""
    [job] = await scene.add(1, queues=["a"])
    dead = scene.start(faults="settle_committed:kill")
    await dead.died()

    assert scene.jobs() == []
    assert scene.locked_queues() == []
    assert scene.history.jobs("started") == [job]
