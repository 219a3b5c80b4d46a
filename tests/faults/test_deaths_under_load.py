"""Many workers die while all of them have much to do."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ferryman import Client, JobSpec, RawJobSpec
from tests.support.rhythms import PATIENT
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.fleet import Fleet

QUEUES = [None, None, None, "a", "b"]

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.program]


async def test_after_all_workers_were_killed_at_once_under_load_new_ones_run_everything(fleet: Fleet) -> None:
    """Twice. Each job that runs again was in the hands of a dead worker, and no job has failed."""
    jobs: list[int] = []
    dead: list[str] = []
    for _ in range(2):
        members = [fleet.start(PATIENT, concurrency=3, prefetch=prefetch) for prefetch in (None, None, 10)]
        for member in members:
            await member.ready()
            await until(lambda member=member: member.first_id in fleet.workers(), "the worker is registered")
        before = len(fleet.history.jobs("ended"))
        jobs += await fleet.add(count=2, gate=str(fleet.gate()))  # whatever happens, there is work left
        jobs += await add_many(fleet, 600)
        await until(lambda before=before: len(fleet.history.jobs("ended")) >= before + 100, "100 more jobs ended")
        for member in members:
            member.signal(signal.SIGKILL)
        for member in members:
            await member.died()
            dead.append(member.first_id)

    fleet.gate().touch()
    fleet.start(PATIENT, concurrency=3)
    fleet.start(PATIENT, concurrency=3, prefetch=10)
    await until(lambda: fleet.count() == 0, "all jobs are done")
    await until(lambda: fleet.locked_queues() == [], "all queues are free")

    assert {*fleet.history.jobs("ended")} == {*jobs}
    again = {job for job, times in Counter(fleet.history.jobs("started")).items() if times > 1}
    assert all(fleet.crashes(job) for job in again)
    for worker_id in dead:
        await fleet.until_swept(worker_id)


async def test_one_job_in_a_hundred_that_kills_its_process_fails_for_good_and_all_others_are_done(
    fleet: Fleet,
) -> None:
    """While there is much to do. Workers claim ahead, so that many a job is held by those who die."""
    poisonous: list[int] = []
    harmless: list[int] = []
    for _ in range(2):
        harmless += await add_many(fleet, 99)
        poisonous += await fleet.add("die", ways=["killed"])
    members = [fleet.start(PATIENT, concurrency=1, prefetch=prefetch) for prefetch in (None, 5, 5)]
    deaths = 0
    while fleet.count() > len(poisonous) or not all(has_failed(fleet, job) for job in poisonous):
        for place, member in enumerate(members):
            if member.has_ended:
                deaths += 1
                members[place] = fleet.start(PATIENT, concurrency=1, prefetch=(None, 5, 5)[place])
        await asyncio.sleep(0.05)

    assert [job.id for job in fleet.jobs()] == sorted(poisonous)
    assert {*fleet.history.jobs("ended")} == {*harmless}
    assert deaths >= 2 * len(poisonous)
    for job in poisonous:
        decisions = [crash.decision for crash in fleet.crashes(job)]
        assert decisions[-1] == "poisoned"
        # One of the three deaths may have come before its start, when it was claimed ahead.
        assert len(fleet.history.lines("started", job=job)) in {2, 3}
        assert "the process of this job died 3 times within 72 h" in fleet.job(job).last_error
    assert not any(crash.decision == "poisoned" for job in harmless for crash in fleet.crashes(job))
    await until(lambda: fleet.locked_queues() == [], "all queues are free")


def has_failed(fleet: Fleet, job_id: int) -> bool:
    job = fleet.job(job_id)
    return job.attempts >= job.max_attempts and job.locked_by is None


async def add_many(fleet: Fleet, count: int) -> list[int]:
    """Quick jobs, some of them in named queues."""
    specs = [RawJobSpec("work", {}, JobSpec(queue_name=QUEUES[number % 5])) for number in range(count)]
    async with Client(fleet.dsn) as client:
        return [job.id for job in await client.add_raw_jobs(specs)]
