"""Workers that are frozen, declared dead, and thawed after their jobs were recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fleet import idle_app
from tests.support.rhythms import PATIENT, QUICK, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from tests.support.fleet import Fleet
    from tests.support.processes import WorkerProgram

pytestmark = pytest.mark.program

ROUNDS = 2


@pytest.mark.parametrize("prefetch", [None, 2], ids=["direct", "local queue"])
async def test_a_frozen_worker_loses_its_job_hears_of_it_and_works_on_under_a_new_id(
    fleet: Fleet, prefetch: int | None
) -> None:
    """Round after round, and the named queue of the job is never wedged."""
    members = await fleet.started(QUICK, QUICK, prefetch=prefetch, concurrency=1)
    for number in range(ROUNDS):
        gate = fleet.gate(f"gate {number}")
        [job] = await fleet.add(queue="a", gate=str(gate))
        zombie_id = await fleet.until_started(job)
        zombie = _member_of(fleet, members, zombie_id)

        zombie.freeze()
        await fleet.until_swept(zombie_id)
        heir_id = await fleet.until_started(job, 2)
        zombie.thaw()

        await fleet.until_refused(job, zombie_id)
        [cancelled] = fleet.history.lines("cancelled", worker=zombie_id, job=job)
        assert cancelled["lease_lost"]
        gate.touch()
        assert await fleet.until_settled(job) == heir_id
    await both_work(fleet, prefetch)
    assert fleet.locked_queues() == []


async def both_work(fleet: Fleet, prefetch: int | None = None) -> None:
    """Both workers take jobs, under ids that were never swept: each can hold half of these."""
    gate = fleet.gate("the end")
    jobs = await fleet.add(gate=str(gate), count=2 * (1 + (prefetch or 0)))
    await until(lambda: all(fleet.job(job).locked_by for job in jobs), "all jobs are claimed")
    owners = {fleet.job(job).locked_by for job in jobs}
    assert len(owners) == 2
    assert not owners & {*fleet.lost()}
    assert owners == {*fleet.workers()}
    gate.touch()
    await fleet.until_gone(*jobs)


async def test_a_result_that_a_zombie_had_ready_is_refused(fleet: Fleet) -> None:
    """Its handler can end before the worker learns that it was declared dead."""
    members = await fleet.started(QUICK, QUICK, concurrency=1)
    gate = fleet.gate()
    [job] = await fleet.add(queue="a", gate=str(gate))
    zombie_id = await fleet.until_started(job)
    zombie = _member_of(fleet, members, zombie_id)

    zombie.freeze()
    gate.touch()
    await fleet.until_gone(job)
    zombie.thaw()

    await fleet.until_refused(job, zombie_id)
    assert fleet.history.jobs("settled", worker=zombie_id) == []
    await both_work(fleet)


@pytest.mark.parametrize("prefetch", [None, 2], ids=["direct", "local queue"])
async def test_a_worker_claims_again_under_its_new_id_what_was_taken_from_it(
    fleet: Fleet, prefetch: int | None
) -> None:
    """No other worker has the task, so the same worker claims the job again."""
    [zombie] = await fleet.started(PATIENT, prefetch=prefetch, concurrency=1)  # it sweeps nobody
    stranger = worker_of(idle_app(fleet.dsn), recovery=recovery_of())
    async with running(stranger):
        gate = fleet.gate()
        [job] = await fleet.add(queue="a", gate=str(gate))
        old_id = await fleet.until_started(job)
        others = await fleet.add(queue="a", count=2)

        zombie.freeze()
        await fleet.until_swept(old_id)
        zombie.thaw()

        new_id = await fleet.until_started(job, 2)
        await fleet.until_refused(job, old_id)
        gate.touch()
        assert {await fleet.until_settled(each) for each in (job, *others)} == {new_id}
        assert new_id != old_id
        assert fleet.locked_queues() == []
        assert fleet.lost() == [old_id]


async def test_a_worker_that_was_frozen_while_it_claimed_does_not_start_what_it_has_lost(fleet: Fleet) -> None:
    zombie = fleet.start(QUICK, faults="after_claim:stop")
    await zombie.ready()
    [job] = await fleet.add(queue="a")
    await until(lambda: fleet.job(job).locked_by == zombie.first_id, "it claims the job")
    [heir] = await fleet.started(QUICK)

    await fleet.until_swept(zombie.first_id)
    assert await fleet.until_settled(job) == heir.first_id
    zombie.thaw()

    await fleet.until_refused(job, zombie.first_id)
    assert fleet.history.jobs("started") == [job]


def _member_of(fleet: Fleet, members: list[WorkerProgram], worker_id: str) -> WorkerProgram:
    [pid] = {line["pid"] for line in fleet.history.lines("started", worker=worker_id)}
    [member] = [member for member in members if member.pid == pid]
    return member
