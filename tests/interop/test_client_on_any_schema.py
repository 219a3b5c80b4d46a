"""Our client on schemas that Node installed, whose functions have their original bodies, and on ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import Client, JobKeyMode, JobSpec, JobState, RawJobSpec
from tests.support import nodes
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

JOBS = "graphile_worker._private_jobs"
LOCK = f"update {JOBS} set attempts = attempts + 1, locked_at = now(), locked_by = 'node' where key = 'k'"
UNLOCK = f"update {JOBS} set locked_at = null, locked_by = null where key = 'k'"


@pytest.fixture(params=[*nodes.VERSIONS, "ours"])
def schema_of_somebody(request: pytest.FixtureRequest, node_database: Callable[[str], str]) -> str:
    """A database whose schema Node has installed and we have not touched; or ours, which must behave the same."""
    if request.param == "ours":
        return str(request.getfixturevalue("database"))
    return node_database(request.param)


@pytest.fixture
async def client(schema_of_somebody: str) -> AsyncIterator[Client]:
    async with Client(schema_of_somebody, max_connections=20) as opened:
        yield opened


@pytest.fixture
async def claimer(schema_of_somebody: str) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(schema_of_somebody) as opened:
        yield opened


async def test_every_way_of_adding_works_without_our_extensions(client: Client) -> None:
    plain = await client.add_raw_job("a", 1, JobSpec(queue_name="q", flags=["f"]))
    keyed = await client.add_raw_job("a", 2, JobSpec(job_key="k", queue_name="r"))
    deduped = await client.add_raw_job("b", 3, JobSpec(job_key="u", job_key_mode=JobKeyMode.UNSAFE_DEDUPE))
    many = await client.add_raw_jobs(
        [RawJobSpec("c", n, JobSpec(job_key=f"m{n}" if n % 2 else None)) for n in range(9)]
    )

    for job in (plain, keyed, deduped, *many):
        assert await client.get_job(job.id) == job
    assert [job.payload for job in many] == list(range(9))


async def test_a_keyed_add_is_not_lost_when_its_job_is_claimed_at_that_moment(
    client: Client, claimer: psycopg.AsyncConnection, schema_of_somebody: str
) -> None:
    old = await client.add_raw_job("a", "old", JobSpec(job_key="k"))
    await claimer.execute(LOCK)
    add = asyncio.create_task(client.add_raw_job("a", "new", JobSpec(job_key="k")))
    with psycopg.connect(schema_of_somebody, autocommit=True) as observer:
        await until(lambda: somebody_waits_for_a_lock(observer), "the add waits for the claim")
    await claimer.commit()

    new = await add

    assert new.id != old.id
    assert (new.payload, new.key, new.state) == ("new", "k", JobState.READY)
    superseded = await client.get_job(old.id)
    assert superseded is not None
    assert (superseded.key, superseded.attempts, superseded.state) == (None, 25, JobState.RUNNING)


async def test_results_are_in_the_order_of_the_input_and_bear_the_right_names(client: Client) -> None:
    specs = [RawJobSpec(f"task_{n % 3}", n, JobSpec(job_key=f"k{9 - n}")) for n in range(9)]

    jobs = await client.add_raw_jobs(specs)

    assert [(job.task_identifier, job.payload, job.key) for job in jobs] == [
        (spec.identifier, spec.payload, spec.spec.job_key) for spec in specs
    ]


async def test_one_key_twice_in_a_call_is_no_error(client: Client) -> None:
    jobs = await client.add_raw_jobs([RawJobSpec("a", n, JobSpec(job_key="k")) for n in range(3)])

    assert [job.payload for job in jobs] == [2, 2, 2]
    assert (await client.counts()).total == 1


async def test_a_thousand_adds_on_one_key_all_get_a_job_while_it_is_claimed_and_returned(
    client: Client, claimer: psycopg.AsyncConnection
) -> None:
    await client.add_raw_job("a", -1, JobSpec(job_key="k"))
    is_done = False

    async def claim_and_return() -> int:
        claims = 0
        while not is_done:
            claims += (await claimer.execute(LOCK)).rowcount
            await claimer.commit()
            await claimer.execute(UNLOCK)
            await claimer.commit()
        return claims

    claiming = asyncio.create_task(claim_and_return())
    jobs = await asyncio.gather(*(client.add_raw_job("a", n, JobSpec(job_key="k")) for n in range(1_000)))
    is_done = True

    assert sorted(job.payload for job in jobs) == list(range(1_000))
    assert await claiming > 0
    [left] = (await client.list_jobs(job_key="k")).jobs
    assert left.payload in range(1_000)
