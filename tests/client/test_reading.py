"""Looking at jobs."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from ferryman import Client, FarTime, JobCounts, JobKeyMode, JobSpec, JobState, RawJobSpec
from ferryman.errors import InvalidJobError

if TYPE_CHECKING:
    import psycopg


async def _one_in_each_state(client: Client, connection: psycopg.Connection) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    jobs = await client.add_raw_jobs(
        [RawJobSpec(state.value, state.value, JobSpec(flags=["all", state.value])) for state in JobState]
    )
    ids = {job.payload: job.id for job in jobs}
    update = "update graphile_worker._private_jobs set"
    connection.execute(f"{update} run_at = %s where id = %s", [later, ids["scheduled"]])
    connection.execute(f"{update} locked_at = now(), locked_by = 'w', attempts = 1 where id = %s", [ids["running"]])
    connection.execute(f"{update} attempts = 2, run_at = %s where id = %s", [later, ids["retrying"]])
    connection.execute(f"{update} attempts = 25 where id = %s", [ids["failed"]])


@pytest.mark.parametrize(
    ("stored", "shown", "is_late"),
    [
        ("infinity", "infinity", True),
        ("-infinity", "-infinity", False),
        ("20000-01-01 00:00Z", "20000-01-01 00:00:00", True),
        ("0044-03-15 00:00Z BC", "0044-03-15 00:00:00 BC", False),
    ],
)
async def test_times_that_python_cannot_hold_are_shown_as_they_are(
    client: Client, connection: psycopg.Connection, stored: str, shown: str, is_late: bool
) -> None:
    odd = await client.add_raw_job("task", {}, JobSpec(job_key="k", job_key_mode=JobKeyMode.UNSAFE_DEDUPE))
    usual = await client.add_raw_job("task")
    connection.execute("update graphile_worker._private_jobs set run_at = %s where id = %s", [stored, odd.id])

    [job, other] = (await client.list_jobs()).jobs
    again = await client.add_raw_job("task", {}, JobSpec(job_key="k", job_key_mode=JobKeyMode.UNSAFE_DEDUPE))
    found = await client.get_job(odd.id)

    assert (job.id, other.id, other.run_at) == (odd.id, usual.id, usual.run_at)
    for each in (job, again, found):
        assert each is not None
        assert isinstance(each.run_at, FarTime)
        assert (str(each.run_at), each.run_at > usual.run_at) == (shown, is_late)
        assert each.run_at.astimezone(timezone(timedelta(hours=14)))
    assert (pickle.loads(pickle.dumps(job.run_at)).stored, job.created_at) == (shown, odd.created_at)


async def test_each_job_is_counted_in_exactly_one_state(client: Client, connection: psycopg.Connection) -> None:
    await _one_in_each_state(client, connection)

    counts = await client.counts()

    assert counts == JobCounts(ready=1, scheduled=1, running=1, retrying=1, failed=1)
    assert counts.total == 5


@pytest.mark.parametrize("state", JobState)
async def test_jobs_are_listed_by_state(client: Client, connection: psycopg.Connection, state: JobState) -> None:
    await _one_in_each_state(client, connection)

    for given in (state, state.value):
        [job] = (await client.list_jobs(state=given)).jobs
        assert (job.payload, job.state) == (state.value, state)


async def test_filters_narrow_the_list(client: Client) -> None:
    await client.add_raw_jobs(
        [
            RawJobSpec("mail", 1, JobSpec(queue_name="a", flags=["x", "y"])),
            RawJobSpec("mail", 2, JobSpec(queue_name="b", flags=["x"])),
            RawJobSpec("sms", 3, JobSpec(queue_name="a", job_key="k")),
        ]
    )

    async def listed(**filters: object) -> list[int]:
        return [job.payload for job in (await client.list_jobs(**filters)).jobs]  # type: ignore[arg-type]

    assert await listed() == [1, 2, 3]
    assert await listed(task="mail") == [1, 2]
    assert await listed(queue_name="a") == [1, 3]
    assert await listed(job_key="k") == [3]
    assert await listed(flags=["x"]) == [1, 2]
    assert await listed(flags=["x", "y"]) == [1]
    assert await listed(task="mail", queue_name="a", flags=["y"], state="ready") == [1]
    assert await listed(task="nothing") == []


async def test_pages_cover_every_job_once_while_jobs_come_and_go(client: Client) -> None:
    jobs = await client.add_raw_jobs([RawJobSpec("x", n) for n in range(25)])

    page = await client.list_jobs(limit=10)
    seen = [job.payload for job in page.jobs]
    await client.complete_jobs([jobs[0].id, jobs[9].id])
    while page.next_after is not None:
        page = await client.list_jobs(limit=10, after=page.next_after)
        seen += [job.payload for job in page.jobs]

    assert seen == list(range(25))


async def test_the_last_full_page_knows_that_it_is_the_last(client: Client) -> None:
    await client.add_raw_jobs([RawJobSpec("x", n) for n in range(10)])

    assert (await client.list_jobs(limit=10)).next_after is None


async def test_a_job_that_is_not_there_is_none(client: Client) -> None:
    assert await client.get_job(1) is None


async def test_a_job_whose_task_row_is_gone_can_still_be_seen(client: Client, connection: psycopg.Connection) -> None:
    job = await client.add_raw_job("lost", {"n": 1})
    connection.execute("delete from graphile_worker._private_tasks")

    found = await client.get_job(job.id)

    assert found is not None
    assert (found.task_identifier, found.payload) == ("", {"n": 1})


@pytest.mark.parametrize(
    "filters", [{"limit": 0}, {"limit": 10_001}, {"state": "done"}, {"after": "x"}, {"flags": "x"}, {"task": ""}]
)
async def test_a_filter_that_makes_no_sense_is_refused(client: Client, filters: dict[str, object]) -> None:
    with pytest.raises(InvalidJobError):
        await client.list_jobs(**filters)  # type: ignore[arg-type]


async def test_flags_that_somebody_else_stored_as_another_shape_do_not_hurt(
    client: Client, connection: psycopg.Connection
) -> None:
    job = await client.add_raw_job("x")
    connection.execute("update graphile_worker._private_jobs set flags = '[1]'")

    found = await client.get_job(job.id)

    assert found is not None
    assert found.flags == ()
