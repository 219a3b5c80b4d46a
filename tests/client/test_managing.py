"""Changing jobs that are there already."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ferryman import Client, Job, JobSpec, JobState, RawJobSpec, RescheduleJobOptions
from ferryman.errors import InvalidJobError

LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


@pytest.fixture
async def jobs(client: Client, connection: psycopg.Connection) -> dict[str, Job]:
    """A job in each state that matters here: regular, failed before, locked, out of attempts."""
    names = ["regular", "retrying", "locked", "failed"]
    added = await client.add_raw_jobs(
        [RawJobSpec("task", name, JobSpec(job_key=name, queue_name=name)) for name in names]
    )
    _, retrying, locked, failed = added
    update = "update graphile_worker._private_jobs set"
    connection.execute(f"{update} attempts = 1, last_error = 'oh no' where id = %s", [retrying.id])
    connection.execute(f"{update} attempts = 1, locked_at = now(), locked_by = 'somebody' where id = %s", [locked.id])
    connection.execute(f"{update} attempts = max_attempts, last_error = 'the end' where id = %s", [failed.id])
    connection.execute(
        "update graphile_worker._private_job_queues set locked_at = now(), locked_by = 'somebody' "
        "where queue_name = 'locked'"
    )
    return dict(zip(names, added, strict=True))


async def _states(client: Client) -> dict[str, str]:
    return {job.payload: job.state.value for job in (await client.list_jobs()).jobs}


async def test_completing_deletes_every_job_but_running_ones(client: Client, jobs: dict[str, Job]) -> None:
    ids = [job.id for job in reversed(jobs.values())]

    done = await client.complete_jobs([*ids, 999_999])

    assert [job.payload for job in done] == ["failed", "retrying", "regular"]
    assert await _states(client) == {"locked": "running"}


async def test_failing_uses_up_all_attempts_but_leaves_running_jobs(client: Client, jobs: dict[str, Job]) -> None:
    failed = await client.permanently_fail_jobs([job.id for job in jobs.values()], "gave up")

    assert {job.payload: (job.state, job.last_error) for job in failed} == dict.fromkeys(
        ["regular", "retrying", "failed"], (JobState.FAILED, "gave up")
    )
    assert (await _states(client))["locked"] == "running"


async def test_failing_without_a_reason_says_that_it_was_done_by_hand(client: Client, jobs: dict[str, Job]) -> None:
    [failed] = await client.permanently_fail_jobs([jobs["regular"].id])

    assert failed.last_error == "Manually marked as failed"


async def test_rescheduling_changes_only_what_it_is_told(client: Client, jobs: dict[str, Job]) -> None:
    ids = [job.id for job in jobs.values()]

    changed = await client.reschedule_jobs(ids, RescheduleJobOptions(run_at=LATER, priority=0, attempts=0))

    assert [job.payload for job in changed] == ["regular", "retrying", "failed"]
    assert {(job.run_at, job.attempts, job.max_attempts) for job in changed} == {(LATER, 0, 25)}
    assert changed[1].last_error == "oh no"
    assert {job.state for job in changed} == {JobState.SCHEDULED}


@pytest.mark.parametrize(("name", "value"), [("run_at", LATER), ("priority", -3), ("attempts", 7), ("max_attempts", 9)])
async def test_rescheduling_sets_each_value_alone(
    client: Client, jobs: dict[str, Job], name: str, value: object
) -> None:
    before = jobs["regular"]
    [after] = await client.reschedule_jobs([before.id], RescheduleJobOptions(**{name: value}))
    settable = ("run_at", "priority", "attempts", "max_attempts")
    assert {each: getattr(after, each) for each in settable} == {
        **{each: getattr(before, each) for each in settable},
        name: value,
    }


async def test_a_rescheduled_job_wakes_idle_workers(client: Client, jobs: dict[str, Job], database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as listener:
        await listener.execute('listen "jobs:insert"')
        await client.reschedule_jobs([jobs["failed"].id], RescheduleJobOptions(attempts=0))

        heard = [notice.channel async for notice in listener.notifies(stop_after=1, timeout=60)]
    assert heard == ["jobs:insert"]


async def test_retrying_lets_failed_jobs_run_again_under_their_ids_without_attempts_and_crashes(
    client: Client, jobs: dict[str, Job], connection: psycopg.Connection
) -> None:
    connection.execute(
        "update graphile_worker._private_jobs set run_at = now() + interval '1 day', "
        """flags = '{"loud": true, "ferryman:crashed": 1, "ferryman:suspect": true, "ferryman:alone": true}'"""
    )

    [job] = await client.retry_jobs([job.id for job in jobs.values()])

    assert (job.id, job.attempts, job.state, job.last_error) == (jobs["failed"].id, 0, JobState.READY, "the end")
    assert (job.key, job.flags) == ("failed", ("loud",))
    assert (await _states(client))["locked"] == "running"


async def test_retrying_takes_every_failed_job_of_a_task(client: Client, jobs: dict[str, Job]) -> None:
    other = await client.add_raw_job("other", {})
    await client.permanently_fail_jobs([other.id])

    assert [job.payload for job in await client.retry_jobs(task="task")] == ["failed"]
    assert [job.id for job in await client.retry_jobs()] == [other.id]
    assert await client.retry_jobs() == []


async def test_retrying_every_failed_job_leaves_a_superseded_one_alone_unless_it_is_named(
    client: Client, connection: psycopg.Connection
) -> None:
    """It would run beside its successor."""
    old = await client.add_raw_job("task", spec=JobSpec(job_key="k"))
    connection.execute("update graphile_worker._private_jobs set locked_by = 'w', locked_at = now(), attempts = 1")
    await client.add_raw_job("task", spec=JobSpec(job_key="k"))
    connection.execute("update graphile_worker._private_jobs set locked_by = null, locked_at = null")
    assert (await client.get_job(old.id)).state is JobState.FAILED

    assert await client.retry_jobs(task="task") == []
    [again] = await client.retry_jobs([old.id])
    assert (again.id, again.state, again.flags) == (old.id, JobState.READY, ())


async def test_unlocking_frees_the_jobs_and_queues_of_the_named_workers_only(
    client: Client, jobs: dict[str, Job], connection: psycopg.Connection
) -> None:
    connection.execute(
        "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'else' where id = %s",
        [jobs["regular"].id],
    )

    await client.force_unlock_workers(["somebody"])

    assert (await _states(client)) == {
        "regular": "running", "retrying": "retrying", "locked": "retrying", "failed": "failed",
    }  # fmt: skip
    locked = connection.execute("select count(*) from graphile_worker._private_job_queues where locked_at is not null")
    assert locked.fetchone() == (0,)


async def test_removing_deletes_a_waiting_job(client: Client, jobs: dict[str, Job]) -> None:
    removed = await client.remove_job("regular")

    assert removed is not None
    assert removed.id == jobs["regular"].id
    assert await client.get_job(removed.id) is None


async def test_removing_a_running_job_lets_it_finish_but_not_retry(client: Client, jobs: dict[str, Job]) -> None:
    removed = await client.remove_job("locked")

    assert removed is not None
    assert (removed.key, removed.attempts, removed.state) == (None, 25, JobState.RUNNING)


async def test_removing_an_unknown_key_gives_nothing(client: Client) -> None:
    assert await client.remove_job("nobody") is None


async def test_no_ids_change_nothing(client: Client) -> None:
    assert await client.complete_jobs([]) == []
    assert await client.permanently_fail_jobs([]) == []
    assert await client.reschedule_jobs([], RescheduleJobOptions(attempts=0)) == []
    assert await client.retry_jobs([]) == []
    await client.force_unlock_workers([])


@pytest.mark.parametrize("bad", ["7", 7.0, True, None, 2**63])
async def test_an_id_that_cannot_be_one_is_refused(client: Client, bad: object) -> None:
    with pytest.raises(InvalidJobError):
        await client.complete_jobs([bad])  # type: ignore[list-item]


async def test_a_worker_id_alone_is_not_a_list_of_letters(client: Client) -> None:
    with pytest.raises(InvalidJobError, match="must be a list"):
        await client.force_unlock_workers("worker-1")
