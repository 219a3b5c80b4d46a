"""Attempts as spans: linked to the producer, current in the handler, described by what came of them."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ConfigDict

from ferryman import App, Fail, JobSpec, LocalQueueConfig, Retry, Snooze, SyncClient, WorkerContext
from ferryman import traces as tracing_seam
from ferryman.hooks import BeforeJobRun, HookRegistry, JobStart, Reject
from tests.observe import child_tasks
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import due_now, jobs, only_job, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from tests.observe.spans import Spans

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OF_RUST = {"flags": 1, "trace_id": TRACE_ID, "span_id": SPAN_ID}
"""As the crate's own tests have it."""
LINKED = [(int(TRACE_ID, 16), int(SPAN_ID, 16))]


async def test_an_attempt_is_a_consumer_span_of_its_own_that_is_linked_to_its_producer(
    spans: Spans, app: App, client: SyncClient
) -> None:
    seen = []

    @app.task
    async def greet(name: str) -> None:
        seen.append(spans.current())

    with spans.active():
        job = client.add_job(greet.job(name="ann"), JobSpec(queue_name="q", max_attempts=3))
    worker = worker_of(app)
    with spans.active("the worker's program"):
        await worker.run_once()

    process = spans.only("process greet")
    assert spans.linked(process) == [spans.ids(spans.only("send greet"))]
    assert (process.parent, process.kind.name, process.status.status_code.name) == (None, "CONSUMER", "UNSET")
    assert [(span.trace_id, span.span_id) for span in seen] == [spans.ids(process)]
    assert dict(process.attributes or {}) == {
        "messaging.system": "graphile-worker",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "greet",
        "messaging.message.id": str(job.id),
        "messaging.client.id": worker.worker_id,
        "messaging.consumer.group.name": "q",
        "ferryman.attempt": 1,
        "ferryman.max_attempts": 3,
        "ferryman.outcome": "completed",
    }


async def test_jobs_of_the_rust_crate_and_of_others_are_linked_to_their_producers(
    spans: Spans, app: App, client: SyncClient
) -> None:
    @app.task
    async def take(payload: dict[str, Any]) -> None: ...

    @app.task
    async def take_list(items: list[Any]) -> None: ...

    traceparent = f"00-{TRACE_ID}-{SPAN_ID}-01"
    for payload in (
        {"_trace": OF_RUST, "name": "ann"},
        {"name": "bob", "_trace": {**OF_RUST, "trace_id": TRACE_ID.upper()}},
        {"_trace": {"traceparent": traceparent}},
        {"_trace": traceparent},
        {"traceparent": traceparent},
    ):
        client.add_raw_job("take", payload)
    client.add_raw_job("take_list", [{"_trace": OF_RUST, "n": 1}, "skip", {"_trace": OF_RUST}])
    await run_all(app)
    processed = [*spans.named("process take"), *spans.named("process take_list")]
    assert [(spans.linked(span), span.status.status_code.name) for span in processed] == [(LINKED, "UNSET")] * 6


async def test_a_traceparent_beside_the_payload_fails_no_task_that_has_no_such_field(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    seen: list[Any] = []
    traceparent = f"00-{TRACE_ID}-{SPAN_ID}-01"

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        n: int

    @app.task
    async def keywords(n: int) -> None:
        seen.append(n)

    @app.task
    async def closed_model(model: Closed) -> None:
        seen.append(model.n)

    @app.task
    async def wanted(n: int, traceparent: str) -> None:
        seen.append(traceparent)

    @app.task
    async def collected(n: int, **rest: Any) -> None:
        seen.append(rest)

    for task in ("keywords", "closed_model", "wanted", "collected"):
        client.add_raw_job(task, {"n": 1, "traceparent": traceparent})
        client.add_raw_job(task, {"n": 1, "traceparent": traceparent, "m": 2})
    await run_all(app, concurrency=1)

    assert seen == [1, 1, traceparent, {"traceparent": traceparent}, {"traceparent": traceparent, "m": 2}]
    assert len(jobs(connection)) == 3, "any other key is still refused"


async def test_a_malformed_trace_is_ignored_and_fails_no_job(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    malformed: list[Any] = [
        None,
        7,
        "00-nonsense",
        [],
        {},
        {"flags": 1, "trace_id": TRACE_ID},
        {**OF_RUST, "flags": "1"},
        {**OF_RUST, "flags": 256},
        {**OF_RUST, "flags": -1},
        {**OF_RUST, "trace_id": "0" * 32},
        {**OF_RUST, "trace_id": TRACE_ID[1:]},
        {**OF_RUST, "trace_id": TRACE_ID + "0", "span_id": SPAN_ID[1:]},
        {**OF_RUST, "span_id": "g" * 16},
        {**OF_RUST, "span_id": 5},
        {"died": 3},
        {"traceparent": f"ff-{TRACE_ID}-{SPAN_ID}-01"},
    ]
    seen = []

    @app.task
    async def take(payload: dict[str, Any]) -> None:
        seen.append(payload)

    for number, value in enumerate(malformed):
        client.add_raw_job("take", {"n": number, "_trace": value})
    await run_all(app, concurrency=1)
    assert seen == [{"n": number} for number in range(len(malformed))]
    assert jobs(connection) == []
    assert [span.links for span in spans.named("process take")] == [()] * len(malformed)


async def test_neither_handlers_nor_hooks_nor_models_see_the_key(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    seen, hooks = [], HookRegistry()

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        n: int

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        n: int

    @app.task
    async def open_model(model: Open, ctx: WorkerContext) -> None:
        seen.extend([model.model_dump(), ctx.payload, ctx.job.payload])

    @app.task
    async def closed_items(items: list[Closed]) -> None:
        seen.extend(item.model_dump() for item in items)

    @app.task
    async def plain(payload: dict[str, Any]) -> None:
        seen.append(payload)

    @app.task
    async def keywords(**rest: Any) -> None:
        seen.append(rest)

    @hooks.on(BeforeJobRun)
    def look(event: BeforeJobRun) -> None:
        seen.extend([event.payload] if isinstance(event.payload, dict) else event.payload)

    @hooks.on(JobStart)
    def look_again(event: JobStart) -> None:
        seen.extend([event.job.payload] if isinstance(event.job.payload, dict) else event.job.payload)

    with spans.active():
        for task in ("open_model", "plain", "keywords"):
            client.add_raw_job(task, {"n": 1})
    client.add_raw_job("closed_items", [{"n": 1, "_trace": OF_RUST}])
    assert sum("_trace" in job.payload for job in jobs(connection)) == 3
    await run_all(app, hooks=hooks)
    assert seen == [{"n": 1}] * 14
    assert jobs(connection) == []


async def test_the_trace_goes_on_in_jobs_that_a_handler_adds(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    app.include(child_tasks.app)

    @app.task
    async def on_loop(ctx: WorkerContext) -> None:
        assert ctx.client is not None
        await ctx.client.add_raw_job("after_on_loop")

    @app.task
    def in_thread(ctx: WorkerContext) -> None:
        ctx.sync_client.add_raw_job("after_in_thread")

    for task in ("on_loop", "in_thread", "in_child"):
        client.add_raw_job(task)
    await run_all(app, local_queue=LocalQueueConfig(size=10))

    traces = {job.task_identifier: job.payload_json for job in client.list_jobs().jobs}
    stored = {task: json.loads(payload)["_trace"] for task, payload in traces.items()}
    for task in ("on_loop", "in_thread"):
        sent = spans.only(f"send after_{task}")
        assert sent.parent == spans.only(f"process {task}").get_span_context()
        assert stored[f"after_{task}"] == spans.in_rust_shape(sent)
    # The tracer of the child process has no SDK, so the attempt itself is the producer.
    assert stored["after_in_child"] == spans.in_rust_shape(spans.only("process in_child"))


async def test_each_attempt_is_a_span_that_says_what_came_of_it(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    answers: list[Exception | None] = [
        ValueError("no luck"),
        Snooze(timedelta(seconds=1)),
        Retry(payload={"n": 2}),
        Fail("no such customer"),
    ]
    seen = []

    @app.task(max_attempts=9)
    async def struggle(n: int) -> None:
        seen.append(n)
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    with spans.active():
        client.add_job(struggle.job(n=1))
    while answers:
        due_now(connection)
        await run_all(app)

    attempts = spans.named("process struggle")
    about = [(span.attributes or {}) for span in attempts]
    assert seen == [1, 1, 1, 2]
    assert [each["ferryman.outcome"] for each in about] == ["retrying", "snoozed", "retrying", "failed"]
    assert [each["ferryman.attempt"] for each in about] == [1, 2, 2, 3]
    assert [each.get("error.type") for each in about] == ["ValueError", None, "Retry", "Fail"]
    assert [span.status.status_code.name for span in attempts] == ["ERROR", "UNSET", "ERROR", "ERROR"]
    assert attempts[0].status.description == "ValueError: no luck"
    [event] = attempts[0].events
    assert event.name == "exception"
    assert (event.attributes or {})["exception.message"] == "no luck"
    assert "in struggle" in str((event.attributes or {})["exception.stacktrace"])
    # The payload that the third attempt replaced still has its trace.
    assert [spans.linked(span) for span in attempts] == [[spans.ids(spans.only("send struggle"))]] * 4


async def test_a_last_attempt_and_a_refusal_of_a_hook_are_failures_with_what_they_say(
    spans: Spans, app: App, client: SyncClient
) -> None:
    hooks = HookRegistry()

    @app.task(max_attempts=1)
    async def refused() -> None: ...

    @hooks.on(BeforeJobRun)
    def refuse(event: BeforeJobRun) -> Reject:
        return Reject("not on a sunday")

    client.add_job(refused.job())
    await run_all(app, hooks=hooks)
    process = spans.only("process refused")
    about = process.attributes or {}
    assert (about["ferryman.outcome"], about["error.type"]) == ("failed", "_OTHER")
    assert process.status.description == "not on a sunday"


@pytest.mark.parametrize("how", ["cancelled at shutdown", "lost"])
async def test_an_attempt_that_could_not_end_says_so(
    spans: Spans, app: App, client: SyncClient, how: str, connection: psycopg.Connection
) -> None:
    has_begun = asyncio.Event()

    @app.task
    async def wait() -> None:
        has_begun.set()
        await asyncio.sleep(600)

    client.add_job(wait.job())
    worker = worker_of(app, shutdown={"grace_period": timedelta(0)})
    async with running(worker):
        await has_begun.wait()
        if how == "lost":
            worker._identity.renew()
            inside(worker).slots.lose_claims_of_other_ids(worker.worker_id)
            await until(lambda: spans.named("process wait") != [], "the handler is cancelled")
    process = spans.only("process wait")
    expected = ("lost", "ERROR") if how == "lost" else ("interrupted", "UNSET")
    assert ((process.attributes or {})["ferryman.outcome"], process.status.status_code.name) == expected


async def test_batches_are_one_span_and_what_is_left_of_them_has_no_trace(
    spans: Spans, app: App, client: SyncClient, connection: psycopg.Connection
) -> None:
    @app.task(batch=True)
    async def each(items: list[int]) -> list[Exception | None]:
        return [None if item % 2 else ValueError("even") for item in items]

    with spans.active():
        client.add_batch_job(each, [1, 2, 3, 4])
    await run_all(app)
    assert (spans.only("process each").attributes or {})["ferryman.outcome"] == "retrying"
    assert only_job(connection).payload == [2, 4]


async def test_a_tracer_that_breaks_down_fails_no_job(
    spans: Spans, app: App, client: SyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("no spans today")

    monkeypatch.setattr(spans.tracer, "start_span", break_down)
    for number in range(3):
        client.add_job(note.job(number=number))
    await run_all(app)
    assert sorted(ran) == [0, 1, 2]
    [said] = [record.getMessage() for record in caplog.records if "tracing library" in record.getMessage()]
    assert said == (
        "the tracing library raised an error; jobs run all the same, but spans of them may be missing; later errors of "
        "this kind are not logged: RuntimeError('no spans today')"
    )


async def test_an_app_that_opted_out_is_not_traced_and_its_tasks_do_not_see_the_key_either(
    spans: Spans, database: str, client: SyncClient
) -> None:
    app, seen = App(database, tracing=False), []

    @app.task
    async def take(payload: dict[str, Any]) -> None:
        seen.append(payload)

    with spans.active():
        client.add_raw_job("take", {"n": 1})
    await run_all(app)
    assert (seen, spans.names) == ([{"n": 1}], ["request", "send take"])


async def test_jobs_of_a_worker_do_not_leave_their_spans_to_the_next_one(
    spans: Spans, app: App, client: SyncClient
) -> None:
    """Small jobs share an asyncio task, and blocking ones their threads."""
    seen, lock = [], threading.Lock()

    @app.task
    async def on_loop() -> None:
        seen.append(spans.current().span_id)

    @app.task
    def in_thread() -> None:
        with lock:
            seen.append(spans.current().span_id)

    client.add_jobs([on_loop.job(), in_thread.job()] * 20)
    await run_all(app)
    processed = [*spans.named("process on_loop"), *spans.named("process in_thread")]
    assert sorted(seen) == sorted(spans.ids(span)[1] for span in processed)
    assert len({*seen}) == 40
    assert {span.parent for span in processed} == {None}
    assert {span.links for span in processed} == {()}


async def test_a_program_that_has_set_up_no_sdk_runs_its_jobs_without_spans(
    spans: Spans, app: App, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @app.task
    async def look() -> None:
        seen.append(spans.current().is_valid)

    monkeypatch.setattr(tracing_seam.find_tracing(is_wanted=True), "tracer", spans.of_no_sdk(monkeypatch))
    client.add_job(look.job())
    await run_all(app)
    assert (seen, spans.names) == ([False], [])
