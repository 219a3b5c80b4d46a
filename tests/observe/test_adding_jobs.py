"""Jobs that are added while a span is active: their spans, and what is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import App, Client, JobKeyMode, JobSpec, RawJobSpec, SyncClient
from ferryman.errors import DatabaseError, InvalidPayloadError
from ferryman.hooks import BeforeJobSchedule, Continue, HookRegistry
from tests.support.workers import jobs, only_job

if TYPE_CHECKING:
    from tests.observe.spans import Spans


def test_a_job_that_is_added_in_a_span_carries_its_producer_in_the_shape_of_the_rust_crate(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    with spans.active() as request:
        job = client.add_raw_job("send_email", {"to": "a@b.c"})

    sent = spans.only("send send_email")
    assert only_job(connection).payload == {"to": "a@b.c", "_trace": spans.in_rust_shape(sent)}
    assert sent.parent == request.get_span_context()
    assert sent.kind.name == "PRODUCER"
    assert dict(sent.attributes or {}) == {
        "messaging.system": "graphile-worker",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "send_email",
        "messaging.message.id": str(job.id),
    }
    assert (job.payload, job.trace_id) == ({"to": "a@b.c"}, f"{request.get_span_context().trace_id:032x}")


async def test_async_clients_and_the_callers_own_transactions_are_traced_too(
    spans: Spans, app: App, connection: psycopg.Connection, database: str
) -> None:
    async with app.client() as client, await psycopg.AsyncConnection.connect(database) as own:
        with spans.active():
            await client.add_raw_job("a", {})
            await client.add_raw_job("b", {}, using=own)
        await own.commit()
    assert [job.payload["_trace"] for job in jobs(connection)] == [
        spans.in_rust_shape(spans.only("send a")),
        spans.in_rust_shape(spans.only("send b")),
    ]


def test_jobs_that_are_added_together_share_one_producer(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    with spans.active():
        client.add_raw_jobs([RawJobSpec("a", {"n": n}) for n in range(3)])
        client.add_raw_jobs([RawJobSpec("a", {}), RawJobSpec("b", {}, JobSpec(job_key="k"))])
    alike, mixed = spans.only("send a"), spans.only("send")
    assert [job.payload["_trace"] for job in jobs(connection)] == [spans.in_rust_shape(alike)] * 3 + [
        spans.in_rust_shape(mixed)
    ] * 2
    assert (alike.attributes or {})["messaging.batch.message_count"] == 3
    assert "messaging.destination.name" not in (mixed.attributes or {})


def test_without_an_active_span_nothing_is_written_and_nothing_told(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    client.add_raw_job("a", {"n": 1})
    assert (only_job(connection).payload, spans.names) == ({"n": 1}, [])


def test_payloads_that_are_no_objects_stay_as_they_are(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    payloads: list[Any] = [[1, 2], [{"n": 1}], "text", 7, True]
    with spans.active():
        for payload in payloads:
            client.add_raw_job("a", payload)
    assert [job.payload for job in jobs(connection)] == payloads
    assert spans.names == ["request", *["send a"] * 5]


def test_a_trace_that_was_copied_along_is_replaced_and_no_other_key_is_touched(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    inner = {"_trace": "of its own", "n": [1.50, 10**20]}
    with spans.active():
        client.add_raw_job("a", {"first": inner, "_trace": {"trace_id": "old"}, "last": "ä"})
    assert only_job(connection).payload == {
        "first": inner,
        "last": "ä",
        "_trace": spans.in_rust_shape(spans.only("send a")),
    }


def test_a_job_that_replaces_another_by_its_key_has_the_newest_trace(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    for number, mode in enumerate([JobKeyMode.REPLACE, JobKeyMode.PRESERVE_RUN_AT, JobKeyMode.UNSAFE_DEDUPE]):
        with spans.active():
            client.add_raw_job("a", {"n": number}, JobSpec(job_key="k", job_key_mode=mode))
    _, newest, _ = spans.named("send a")
    assert only_job(connection).payload == {"n": 1, "_trace": spans.in_rust_shape(newest)}


def test_hooks_and_the_limit_of_a_payload_do_not_see_the_trace(
    spans: Spans, database: str, connection: psycopg.Connection
) -> None:
    app, hooks, seen = App(database, max_payload_bytes=11), HookRegistry(), []

    @hooks.on(BeforeJobSchedule)
    def look(event: BeforeJobSchedule) -> Continue:
        seen.append(event.payload)
        return Continue({"n": 12345} if event.payload == {"n": 1} else {"n": 123456})

    with app.sync_client(hooks=hooks) as client, spans.active():
        client.add_raw_job("a", {"n": 1})
        with pytest.raises(InvalidPayloadError, match="12 bytes"):
            client.add_raw_job("a", {"n": 2})
    assert seen == [{"n": 1}, {"n": 2}]
    assert only_job(connection).payload == {"n": 12345, "_trace": spans.in_rust_shape(spans.only("send a"))}


def test_a_span_that_is_not_sampled_is_carried_on_with_its_flags(
    spans: Spans, client: SyncClient, connection: psycopg.Connection
) -> None:
    with spans.active(sampled=False) as request:
        client.add_raw_job("a", {})
    stored = only_job(connection).payload["_trace"]
    assert (stored["flags"] & 1, int(stored["trace_id"], 16)) == (0, request.get_span_context().trace_id)
    assert spans.names == []


def test_an_app_can_opt_out_in_code_and_by_its_environment(
    spans: Spans, database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with App(database, tracing=False).sync_client() as client, spans.active():
        client.add_raw_job("a", {})
    monkeypatch.setenv("FERRYMAN_TRACING", "off")
    with SyncClient(database) as client, spans.active():
        client.add_raw_job("a", {})
    assert [job.payload for job in jobs(connection)] == [{}, {}]
    assert spans.names == ["request", "request"]


async def test_a_refused_job_is_a_failed_span_and_a_broken_tracer_refuses_no_job(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("alter table graphile_worker._private_jobs add constraint no_b check (priority <> 7)")
    with spans.active(), pytest.raises(DatabaseError):
        client.add_raw_job("a", {}, JobSpec(priority=7))
    async with app.client() as awaited:
        with spans.active(), pytest.raises(DatabaseError):
            await awaited.add_raw_job("a", {}, JobSpec(priority=7))
    failed = spans.named("send a")
    assert [span.status.status_code.name for span in failed] == ["ERROR", "ERROR"]
    assert [(span.attributes or {})["error.type"] for span in failed] == ["DatabaseError", "DatabaseError"]

    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("no spans today")

    with spans.active():
        monkeypatch.setattr(spans.tracer, "start_span", break_down)
        client.add_raw_job("a", {})
    assert json.dumps(only_job(connection).payload) == "{}"


async def test_a_task_that_is_added_by_its_own_name_is_traced(
    spans: Spans, app: App, connection: psycopg.Connection
) -> None:
    @app.task(queue_name="user:{user}")
    async def greet(user: str) -> None: ...

    async with app.client() as client:
        assert isinstance(client, Client)
        with spans.active():
            await client.add_job(greet.job(user="ann"))
    assert only_job(connection).payload == {"user": "ann", "_trace": spans.in_rust_shape(spans.only("send greet"))}
