"""One job of many wants more memory than there is."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.groups import make_group
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.crash_site import CrashSite

SPARE_BYTES = 400_000_000

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.mark.parametrize("task", ["hoard", "hoard_in_a_thread"])
async def test_a_handler_that_runs_out_of_memory_fails_and_the_others_go_on(site: CrashSite, task: str) -> None:
    """The process has a limit, so that Python is refused memory, as with `ulimit -v`."""
    waiting = await site.add(2, gate=str(site.gate))
    worker = site.start(faults=None)
    await until(lambda: len(site.history.jobs("started")) == 2, "others run")
    limit = size(worker.pid) + SPARE_BYTES
    resource.prlimit(worker.pid, resource.RLIMIT_AS, (limit, limit))

    hoarding = await site.add(3, task=task, max_attempts=1)

    await until(lambda: sorted(site.history.jobs("failed")) == hoarding, "each of the hoarders fails")
    assert {line["error"] for line in site.history.lines("failed")} == {"MemoryError"}
    site.open_gate()
    after = [*await site.add(10), *await site.add(2, task="note_in_a_thread")]
    await until(lambda: sorted(site.history.jobs("settled")) == sorted(waiting + after), "all others are settled")
    assert worker.logged("duty_failed") == []
    assert sorted(site.history.jobs("failed")) == site.jobs() == hoarding, "no other has failed"
    assert site.jobs_of(worker) == []


def size(pid: int) -> int:
    """How much address space a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path | None]:
    folder = make_group(tmp_path.name)
    yield folder
    if folder is not None:
        folder.rmdir()


async def test_a_child_that_the_kernel_kills_for_its_memory_fails_one_job_and_the_others_go_on(
    group: Path | None, site: CrashSite
) -> None:
    """By the kernel itself where a control group can be made; elsewhere the child sends itself the same signal."""
    payload = {"history": str(site.history.path)}
    waiting = await site.add(1, task="work_in_child", gate=str(site.gate), **payload)
    worker = site.start(faults=None)
    await until(lambda: site.history.jobs("started") == waiting, "another child runs")

    there = None if group is None else str(group)
    [hoarding] = await site.add(1, task="hoard_in_a_child", max_attempts=1, group=there, **payload)

    await until(lambda: site.history.jobs("failed") == [hoarding], "the hoarder fails")
    [line] = site.history.lines("failed")
    assert line["error"].startswith("WorkerCrashed: ")
    assert "SIGKILL" in line["error"]
    if group is not None:
        assert "oom_kill 1" in oom_counts(group)
    site.open_gate()
    after = await site.add(1, task="work_in_child", **payload)
    await until(lambda: sorted(site.history.jobs("settled")) == waiting + after, "the others end")
    assert site.jobs_of(worker) == []


def oom_counts(group: Path) -> list[str]:
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            return (group / name).read_text().splitlines()
    return []
