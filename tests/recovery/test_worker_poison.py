"""Jobs that kill their workers are stopped, and do not harm other jobs."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ferryman import App
from tests.support.processes import Program
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.fleet import Fleet
    from tests.support.processes import WorkerProgram

pytestmark = pytest.mark.program

MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
MEMORY_BYTES = 200_000_000
EXIT_CODES = {
    "segmentation fault": -signal.SIGSEGV,
    "exit": 3,
    "out of memory": -signal.SIGKILL,
    "killed": -signal.SIGKILL,
}


async def test_a_job_that_kills_its_worker_fails_at_its_third_death_while_others_work_on(
    fleet: Fleet, little_memory: LittleMemory | None
) -> None:
    """By a segmentation fault, by `os._exit`, and because the system is out of memory."""
    ways = ["segmentation fault", "exit", "killed" if little_memory is None else "out of memory"]
    async with others(fleet) as has_worked:
        [poison] = await fleet.add("die", ways=ways)
        for way, decision in zip(ways, ("requeue", "requeue", "poisoned"), strict=True):
            victim = fleet.start(PATIENT)
            if way == "out of memory" and little_memory is not None:
                little_memory.take(victim)
            assert await victim.died() == EXIT_CODES[way]
            await fleet.until_swept(victim.first_id)
            assert fleet.crashes(poison)[-1].decision == decision
            await has_worked()
    job = fleet.job(poison)
    assert (job.locked_by, job.attempts) == (None, job.max_attempts)
    assert "the process of this job died 3 times within 72 h" in job.last_error
    told = jobs_show(fleet, poison)
    assert (told.count("requeue"), told.count("poisoned")) == (2, 1)
    assert all(worker_id in told for worker_id in fleet.lost())


def jobs_show(fleet: Fleet, job_id: int) -> str:
    """The output of `ferryman jobs show`."""
    told = Program("ferryman", "jobs", "show", str(job_id), environment={"DATABASE_URL": fleet.dsn}, talks=True)
    try:
        assert told.wait() == 0
        return "\n".join(told.lines)
    finally:
        told.end()


async def test_jobs_that_waited_beside_a_poisonous_one_never_fail(fleet: Fleet) -> None:
    """They were claimed ahead when the worker died. No attempt of theirs is lost, and they run when they can."""
    async with others(fleet):
        [poison] = await fleet.add("die", ways=["exit"])
        bystanders = await fleet.add("work", count=8)
        for _ in range(3):
            victim = fleet.start(PATIENT, concurrency=1, prefetch=20)
            await victim.died()
            await fleet.until_swept(victim.first_id)
        assert [crash.decision for crash in fleet.crashes(poison)] == ["requeue", "requeue", "poisoned"]
        assert [crash.started for crash in fleet.crashes(poison)] == [None, True, True]
        for job in bystanders:
            assert [crash.decision for crash in fleet.crashes(job)][:2] == ["requeue", "given back"]
        fleet.start(PATIENT, concurrency=1, prefetch=20)
        await fleet.until_gone(*bystanders)
    assert {line["attempts"] for job in bystanders for line in fleet.history.lines("started", job=job)} == {1}
    assert [job.id for job in fleet.jobs()] == [poison]


@asynccontextmanager
async def others(fleet: Fleet) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A worker of another application on the same schema. It can be asked whether it works."""
    app, done = App(fleet.dsn), []

    @app.task
    async def steady(number: int) -> None:
        done.append(number)

    async def has_worked() -> None:
        number = len(done)
        await fleet.add("steady", number=number)
        await until(lambda: number in done, "others work on")

    async with running(worker_of(app, recovery=recovery_of(PATIENT))):
        yield has_worked


class LittleMemory:
    """A control group whose members together may use little memory. The kernel kills who wants more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, member: WorkerProgram) -> None:
        (self._folder / "cgroup.procs").write_text(str(member.pid))


@pytest.fixture
def little_memory(tmp_path: Path) -> Iterator[LittleMemory | None]:
    """None where no control group can be made."""
    folder = MEMORY_GROUPS / f"ferryman-test-{os.getpid()}-{tmp_path.name}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    (folder / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
    yield LittleMemory(folder)
    folder.rmdir()
