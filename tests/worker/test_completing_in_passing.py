"""Claims complete finished jobs in passing: under the same fence as ever, and without waiting for anybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import App, Client, JobSpec, RawJobSpec
from ferryman.database.statements import Style
from ferryman.database.timed import TimedDatabase
from ferryman.hooks import HookRegistry, JobComplete
from ferryman.queries.claim import ClaimStatement
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.identity import Identity
from ferryman.worker.running import slots as running_module
from tests.support.waiting import until
from tests.support.workers import jobs, running, worker_of

if TYPE_CHECKING:
    from ferryman.database.steps import Call

pytestmark = pytest.mark.claims


@pytest.fixture
async def claimer(client: Client) -> Claimer:
    await client.add_raw_jobs([RawJobSpec("work", {"number": number}) for number in range(4)])
    connection = TimedDatabase(client.pool, client.schema)
    made = Claimer(connection, Identity(), ["work"], forbidden_flags=(), use_local_time=False)
    await made.register()
    return made


def _left(connection: psycopg.Connection) -> list[int]:
    return [job.id for job in jobs(connection)]


async def test_finished_jobs_are_deleted_by_the_next_claim(claimer: Claimer, connection: psycopg.Connection) -> None:
    first, second = (await claimer.claim(2)).claims

    claimed = await claimer.claim(1, lambda _: [first, second])

    assert (claimed.done, len(claimed.claims)) == (None, 1)
    assert _left(connection) == [3, 4]


async def test_finished_jobs_are_deleted_also_when_there_is_nothing_to_claim(
    claimer: Claimer, connection: psycopg.Connection
) -> None:
    claims = (await claimer.claim(4)).claims
    assert (await claimer.claim(4, lambda _: claims)).done is None
    assert _left(connection) == []


async def test_claims_of_different_moments_are_completed_together(
    claimer: Claimer, connection: psycopg.Connection
) -> None:
    claims = [*(await claimer.claim(1)).claims, *(await claimer.claim(2)).claims]
    assert (await claimer.claim(1, lambda _: claims)).done is None
    assert _left(connection) == [4]


@pytest.mark.parametrize("change", ["locked_by = 'another'", "locked_at = locked_at + interval '1 microsecond'"])
async def test_a_job_that_was_taken_away_is_left_alone(
    claimer: Claimer, connection: psycopg.Connection, change: str
) -> None:
    first, second = (await claimer.claim(2)).claims
    connection.execute(f"update graphile_worker._private_jobs set {change} where id = %s", [second.job_id])

    assert (await claimer.claim(1, lambda _: [first, second])).done == [first.job_id]
    assert _left(connection) == [2, 3, 4]


async def test_a_claim_that_is_older_than_the_lock_completes_nothing(
    claimer: Claimer, connection: psycopg.Connection
) -> None:
    """Two claims of two moments: each completes only its own job."""
    [first] = (await claimer.claim(1)).claims
    [second] = (await claimer.claim(1)).claims
    first.token, second.token = second.token, first.token

    assert (await claimer.claim(1, lambda _: [first, second])).done == []
    assert _left(connection) == [1, 2, 3, 4]


async def test_a_row_that_somebody_has_locked_is_not_waited_for(
    claimer: Claimer, connection: psycopg.Connection, database: str
) -> None:
    first, second = (await claimer.claim(2)).claims
    with psycopg.connect(database) as holder:
        holder.execute("select from graphile_worker._private_jobs where id = %s for update", [first.job_id])
        async with asyncio.timeout(30):
            claimed = await claimer.claim(1, lambda _: [first, second])

    assert (claimed.done, len(claimed.claims)) == ([second.job_id], 1)
    assert _left(connection) == [1, 3, 4]


async def test_a_worker_goes_on_while_a_finished_job_is_locked(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    app, hooks, done = App(database), HookRegistry(), []
    hooks.on(JobComplete, lambda event: done.append(event.job.id))

    @app.task
    async def work(number: int) -> None:
        if number == 0:
            holder.execute("select from graphile_worker._private_jobs where id = 1 for update")

    await client.add_raw_jobs([RawJobSpec("work", {"number": number}) for number in range(8)])
    with psycopg.connect(database) as holder:
        async with running(worker_of(app, concurrency=1, hooks=hooks, max_connections=4)):
            await until(lambda: sorted(done) == [2, 3, 4, 5, 6, 7, 8], "all but the locked one are completed")
            holder.rollback()
            await until(lambda: 1 in done, "so is that one")

    assert sorted(done) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert _left(connection) == []


async def test_small_jobs_cost_one_statement_for_each_group(
    client: Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    fetch = TimedDatabase.fetch

    async def note(self: TimedDatabase, call: Call):
        sent.append(call.statement.name)
        return await fetch(self, call)

    monkeypatch.setattr(TimedDatabase, "fetch", note)
    monkeypatch.setattr(running_module, "SECONDS_OF_A_TURN", 60.0)
    app = App(database)

    @app.task
    async def work(number: int) -> None: ...

    await client.add_raw_jobs([RawJobSpec("work", {"number": number}) for number in range(100)])
    await worker_of(app, concurrency=10).run_once()

    assert sent.count("complete_claims") <= 1, "only the last ones, after which there is nothing to claim"
    assert sent.count("claim_jobs") + sent.count("claim_plain_jobs") <= 13


@pytest.mark.parametrize(
    ("search", "durable", "queue", "completes", "expected"),
    [
        *((search, False, None, False, "off") for search in ClaimStatement),
        *((search, True, None, False, "on") for search in ClaimStatement),
        *((search, False, None, True, "on") for search in ClaimStatement),
        (ClaimStatement.FRONT, False, "letters", False, "on"),
        (ClaimStatement.BY_TASK, False, "letters", False, "on"),
    ],
)
async def test_only_a_claim_alone_need_not_be_on_disk(
    client: Client,
    connection: psycopg.Connection,
    *,
    search: ClaimStatement,
    durable: bool,
    queue: str | None,
    completes: bool,
    expected: str,
) -> None:
    await client.add_raw_job("work", {}, JobSpec(queue_name=queue))
    done = [(4711, 1)] if completes else []
    call = search.value("me", [1], wanted=1, window=64, now=None, forbidden_flags=None, done=done, durable=durable)
    text = call.statement.text(client.schema, Style.NUMBERED)
    with connection.transaction():
        cursor = psycopg.RawCursor(connection)
        [_, row] = cursor.execute(text, call.statement.ordered(call.parameters)).fetchall()
        assert row[0] == 1, "it is claimed"
        assert cursor.execute("show synchronous_commit").fetchone() == (expected,)
