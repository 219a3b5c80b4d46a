"""Attempts whose worker died: the worker that recovers a job makes a span for each, which the next attempt links to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import App, SweepStaleWorkersOptions
from tests.support.rhythms import recovery_of
from tests.support.tables import Tables
from tests.support.waiting import until
from tests.support.workers import due_now, jobs, run_all, running, worker_of

if TYPE_CHECKING:
    from ferryman import SyncClient
    from tests.observe.spans import Spans

CLAIM = (
    "update graphile_worker._private_jobs set locked_by = 'dead', locked_at = now() - interval '1 hour',"
    " attempts = attempts + 1"
)


async def test_an_attempt_that_died_is_told_by_the_sweep_and_linked_to_by_the_next_one(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    seen: list[Any] = []

    @app.task
    async def take(payload: dict[str, Any]) -> None:
        seen.append(payload)

    @app.task
    async def take_list(items: list[int]) -> None:
        seen.append(items)

    with spans.active():
        client.add_raw_job("take", {"n": 1})
        traced = spans.only("send take")
        client.add_batch_job("take_list", [1])
    client.add_raw_job("take", {"n": 2})
    connection.execute(CLAIM)
    connection.commit()

    client.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=["dead"], recovery_delay=timedelta(0)))

    died = {int((span.attributes or {})["messaging.message.id"]): span for span in spans.named("process take")}
    first, _, untraced = jobs(connection)
    span = died[first.id]
    about = span.attributes or {}
    assert (about["ferryman.outcome"], about["error.type"], about["ferryman.attempt"]) == ("died", "WorkerCrashed", 1)
    assert (about["messaging.client.id"], span.status.status_code.name) == ("dead", "ERROR")
    assert spans.linked(span) == [spans.ids(traced)]
    assert (span.end_time or 0) - (span.start_time or 0) >= 3600 * 10**9
    # The producer stays where the Rust worker looks for it.
    rust = spans.in_rust_shape(traced)
    assert {key: first.payload["_trace"][key] for key in rust} == rust
    assert [*untraced.payload["_trace"]] == ["died"]

    due_now(connection)
    connection.commit()
    await run_all(app)
    assert sorted(seen, key=str) == [[1], {"n": 1}, {"n": 2}]
    again = {
        int((span.attributes or {})["messaging.message.id"]): spans.linked(span)
        for span in spans.named("process take")
        if (span.attributes or {})["ferryman.outcome"] == "completed"
    }
    assert again == {
        first.id: [spans.ids(traced), spans.ids(died[first.id])],
        untraced.id: [spans.ids(died[untraced.id])],
    }


async def test_without_tracing_a_sweep_leaves_payloads_as_they_are(
    spans: Spans, database: str, connection: psycopg.Connection
) -> None:
    with App(database, tracing=False).sync_client() as client:
        client.add_raw_job("take", {"n": 1})
        connection.execute(CLAIM)
        connection.commit()
        assert client.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=["dead"])).recovered_count == 1
    assert ([job.payload for job in jobs(connection)], spans.names) == ([{"n": 1}], [])


async def test_a_worker_that_recovers_a_job_tells_of_its_attempt_and_runs_it_again(
    spans: Spans, app: App, database: str
) -> None:
    @app.task
    async def take(payload: dict[str, Any]) -> None: ...

    with psycopg.connect(database, autocommit=True) as connection:
        Tables(connection).held_job("ferryman-0123456789abcdef01", identifier="take")
    async with running(worker_of(app, recovery=recovery_of())):
        await until(lambda: len(spans.named("process take")) == 2, "the job was recovered and runs again")
    died, again = spans.named("process take")
    assert [(span.attributes or {})["ferryman.outcome"] for span in (died, again)] == ["died", "completed"]
    assert spans.linked(again) == [spans.ids(died)]
