"""Rows of claims are decoded when asked, so that one that cannot be decoded harms only its own job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, FarTime, RawJobSpec
from ferryman.hooks import HookRegistry, JobComplete
from ferryman.retries import FixedDelay
from ferryman.worker import LocalQueueConfig
from ferryman.worker.claiming import claims
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import Client


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig()], ids=["direct", "local queue"])
@pytest.mark.parametrize("large", [claims.LARGE, 0], ids=["small", "large"])
async def test_a_row_that_python_cannot_hold_does_not_keep_others_from_running(
    client: Client,
    connection: psycopg.Connection,
    database: str,
    *,
    local_queue: LocalQueueConfig | None,
    large: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL knows times that Python does not. Such a job runs, is settled, and is told like others."""
    monkeypatch.setattr(claims, "LARGE", large)
    app, hooks, told, ran = App(database), HookRegistry(), {}, []
    hooks.on(JobComplete, lambda event: told.update({event.job.id: event.job.run_at}))

    @app.task(retry=FixedDelay(1000))
    async def work(number: int) -> None:
        ran.append(number)
        if number == 1:
            raise ValueError(number)

    await client.add_raw_jobs([RawJobSpec("work", {"number": number}) for number in range(4)])
    connection.execute("update graphile_worker._private_jobs set run_at = '-infinity' where id in (1, 2)")

    async with running(worker_of(app, hooks=hooks, local_queue=local_queue)):
        await until(lambda: sorted(told) == [1, 3, 4], "all that were completed are told")
        await until(lambda: len(jobs_left(connection)) == 1, "all are settled but the one that failed")

    assert sorted(ran) == [0, 1, 2, 3]
    assert (str(told[1]), isinstance(told[3], FarTime)) == ("-infinity", False)
    [(number, error, locked_at)] = jobs_left(connection)
    assert (number, locked_at) == (2, None)
    assert "ValueError: 1" in error or "could not run this job" in error


async def test_large_payloads_of_others_are_not_kept(
    client: Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "LARGE", 1_000)
    app, kept = App(database), []

    @app.task
    async def work(text: str) -> None: ...

    await client.add_raw_jobs([RawJobSpec("work", {"text": "x" * 600}) for _ in range(3)])
    claimed_from_rows = claims.claimed_from_rows

    def note(rows: Any, worker_id: str) -> claims.Claimed:
        claimed = claimed_from_rows(rows, worker_id)
        kept.extend(len(claim.rows) for claim in claimed.claims)
        return claimed

    monkeypatch.setattr("ferryman.worker.claiming.claimer.claimed_from_rows", note)
    await worker_of(app).run_once()
    assert kept == [1, 1, 1]


def jobs_left(connection: psycopg.Connection) -> list[Any]:
    return connection.execute("select id, last_error, locked_at from graphile_worker._private_jobs").fetchall()


async def test_they_are_a_sequence_like_any_other(client: Client) -> None:
    async with client.pool.connection() as connection:
        rows = await connection.fetch_lazily("select n, n::text as text from generate_series(1, $1::int) as n", [3])
    assert [*rows] == [(1, "1"), (2, "2"), (3, "3")]
    assert (len(rows), rows[0], rows[-1], rows[1:]) == (3, (1, "1"), (3, "3"), [(2, "2"), (3, "3")])
    assert (rows.column("text"), rows.value(2, "n")) == (["1", "2", "3"], 3)
    [own] = only = rows.only(1)
    assert (own, only[0], only.column("text"), only.value(0, "n")) == ((2, "2"), (2, "2"), ["2"], 2)
    assert (len(only), [*only.only(0)]) == (1, [(2, "2")])
    for place in (3, -4):
        with pytest.raises(IndexError):
            rows[place]
