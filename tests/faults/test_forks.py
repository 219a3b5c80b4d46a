"""Processes that handlers start: while the worker lives, and when it is killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import is_running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.crash_site import Scene

PROGRAM = "tests.support.programs.faulty_worker"
CODES = {"return": 0, "exit": 3, "raise": 1, "await": 1}

pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("way", CODES)
async def test_a_process_that_an_async_handler_forks_ends_with_the_handler_and_is_no_second_worker(
    scene: Scene, way: str
) -> None:
    """However it ends: it returns, leaves, raises, or waits for a loop that is not its own."""
    others = await scene.add(20, queues=[None, "a"])
    forking = await scene.add(2, task="fork_on_the_loop", way=way)
    worker = scene.start(program=PROGRAM)

    await until(lambda: sorted(scene.history.jobs("settled")) == sorted(others + forking), "all jobs are settled")

    assert [line["code"] for line in scene.history.lines("forked")] == [CODES[way]] * 2
    assert sorted(scene.history.jobs("started")) == others
    assert {line["pid"] for line in scene.history.lines("settled")} == {worker.pid}
    assert worker.said("failed") == []


@pytest.fixture
def ended() -> Iterator[Callable[[int], int]]:
    """Processes to end when the test is over."""
    pids: list[int] = []

    def remember(pid: int) -> int:
        pids.append(pid)
        return pid

    yield remember
    for pid in filter(is_running, pids):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("task", ["start_a_program", "start_a_program_in_a_child"])
async def test_a_program_that_a_handler_has_started_outlives_a_killed_worker_and_keeps_nothing_of_it(
    scene: Scene, ended: Callable[[int], int], task: str
) -> None:
    """Nobody is left to end it. It has none of the worker's connections, so the server knows who is gone."""
    payload = {"history": str(scene.history.path)} if task.endswith("child") else {}
    await scene.add(1, task=task, **payload)
    worker = scene.start(program=PROGRAM)
    program = ended((await noted(scene))["program"])
    await until(lambda: connections(scene) > 0, "the worker has connections")

    worker.signal(signal.SIGKILL)
    await worker.died()

    await until(lambda: connections(scene) == 0, "the server has noticed")
    assert is_running(program)
    assert not any("socket:" in name for name in open_files(program))


async def test_a_forked_process_that_outlives_its_worker_keeps_the_worker_s_sessions_until_it_ends(
    scene: Scene, ended: Callable[[int], int]
) -> None:
    """It has them open. That is why a worker is dead by its silence too, whatever the server says of its session."""
    await scene.add(1, task="fork_and_stay", gate=str(scene.gate))
    worker = scene.start(program=PROGRAM)
    fork = ended((await noted(scene))["program"])

    worker.signal(signal.SIGKILL)
    await worker.died()
    assert connections(scene) > 0

    scene.open_gate()
    await until(lambda: not is_running(fork), "the fork ends")
    await until(lambda: connections(scene) == 0, "the server has noticed")


async def noted(scene: Scene) -> dict[str, int]:
    await until(lambda: bool(scene.history.lines("program")), "the handler has started a process")
    [line] = scene.history.lines("program")
    return line


def connections(scene: Scene) -> int:
    others = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    [(count,)] = scene._rows(f"select count(*) from pg_stat_activity where {others}")
    return int(count)


def open_files(pid: int) -> list[str]:
    names = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            names.append(str(file.readlink()))
    return names
