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

    from tests.support.crash_site import CrashSite

CODES = {"return": 0, "exit": 3, "raise": 1, "await": 1}

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.mark.parametrize("way", CODES)
async def test_a_process_that_an_async_handler_forks_ends_with_the_handler_and_is_no_second_worker(
    site: CrashSite, way: str
) -> None:
    """However it ends: it returns, leaves, raises, or waits for a loop that is not its own."""
    others = await site.add(20, queues=[None, "a"])
    forking = await site.add(2, task="fork_on_the_loop", way=way)
    worker = site.start()

    await until(lambda: sorted(site.history.jobs("settled")) == sorted(others + forking), "all jobs are settled")

    assert [line["code"] for line in site.history.lines("forked")] == [CODES[way]] * 2
    assert sorted(site.history.jobs("started")) == others
    assert {line["pid"] for line in site.history.lines("settled")} == {worker.pid}
    assert worker.failures == []


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
    site: CrashSite, ended: Callable[[int], int], task: str
) -> None:
    """Nobody is left to end it. It has none of the worker's connections, so the server knows who is gone."""
    payload = {"history": str(site.history.path)} if task.endswith("child") else {}
    await site.add(1, task=task, **payload)
    worker = site.start()
    program = ended((await noted(site))["program"])
    await until(lambda: site.connections() > 0, "the worker has connections")

    worker.signal(signal.SIGKILL)
    await worker.died()

    await until(lambda: site.connections() == 0, "the server has noticed")
    assert is_running(program)
    assert not any("socket:" in name for name in open_files(program))


async def test_a_forked_process_that_outlives_its_worker_keeps_the_worker_s_sessions_until_it_ends(
    site: CrashSite, ended: Callable[[int], int]
) -> None:
    """It has them open. That is why a worker is dead by its silence too, whatever the server says of its session."""
    worker = site.start()
    await until(lambda: site.connections() > 1, "the worker listens")
    await site.add(1, task="fork_and_stay", gate=str(site.gate))
    fork = ended((await noted(site))["program"])

    worker.signal(signal.SIGKILL)
    await worker.died()
    assert site.connections() > 0

    site.open_gate()
    await until(lambda: not is_running(fork), "the fork ends")
    await until(lambda: site.connections() == 0, "the server has noticed")


async def noted(site: CrashSite) -> dict[str, int]:
    await until(lambda: bool(site.history.lines("program")), "the handler has started a process")
    [line] = site.history.lines("program")
    return line


def open_files(pid: int) -> list[str]:
    names = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            names.append(str(file.readlink()))
    return names
