"""Batch jobs: what is done stays done, and what failed is all that is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import BatchResult, Fail, JobSpec
from ferryman.hooks import AfterJobRun, HookRegistry, JobFail, JobPermanentlyFail, Reject
from ferryman.retries import FixedDelay
from tests.support.workers import due_now, jobs, only_job, run_all

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

ITEMS = [{"n": 1.50}, {"n": 2}, {"n": 3, "unknown": "é"}]


def answering(app: App, answer: Any, **options: Any) -> list[list[dict[str, Any]]]:
    """Define a batch task, `send`, that returns or raises this; the list holds the items of each call."""
    calls: list[list[dict[str, Any]]] = []

    @app.task(batch=True, **options)
    async def send(items: list[dict[str, Any]]) -> Any:
        calls.append(items)
        if isinstance(answer, BaseException):
            raise answer
        return answer(items) if callable(answer) else answer

    return calls


SUCCESSES = [None, BatchResult.complete(), BatchResult.of_items([None] * 3), [None] * 3, (None,) * 3]


@pytest.mark.parametrize("answer", SUCCESSES, ids=["None", "complete", "of_items", "list", "tuple"])
async def test_a_batch_that_is_done_leaves_no_row(
    app: App, client: Client, connection: psycopg.Connection, answer: Any
) -> None:
    calls = answering(app, answer)
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    assert calls == [ITEMS]
    assert jobs(connection) == []


WHOLE_FAILURES = [
    (ValueError("x"), "ValueError: x"),
    (BatchResult.fail_all(ValueError("x")), "ValueError: x"),
    (BatchResult.fail_all("no \0 connection"), "no \N{REPLACEMENT CHARACTER} connection"),
    ([None], "batch handler returned 1 results for 3 payload items"),
    (BatchResult.of_items([None] * 4), "batch handler returned 4 results for 3 payload items"),
    (17, "batch handler returned int"),
    ([None, False, None], "batch handler returned bool for item 1; expected None if it is done, or an error"),
    ([ValueError("x"), None, 17], "batch handler returned int for item 2"),
]


@pytest.mark.parametrize(
    ("answer", "error"),
    WHOLE_FAILURES,
    ids=["raised", "fail_all", "text", "too few", "too many", "nonsense", "false", "values"],
)
async def test_a_batch_that_failed_as_a_whole_keeps_its_payload(
    app: App, client: Client, connection: psycopg.Connection, answer: Any, error: str
) -> None:
    answering(app, answer)
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    job = only_job(connection)
    assert job.last_error.startswith(error)
    assert (job.payload, job.attempts, job.locked_at) == (ITEMS, 1, None)


@pytest.mark.parametrize("form", [list, tuple, BatchResult.of_items], ids=["list", "tuple", "BatchResult"])
async def test_only_the_items_that_failed_are_left_as_they_were_stored(
    app: App, client: Client, connection: psycopg.Connection, form: Any
) -> None:
    answering(app, form([ValueError("a"), None, "b"]))
    payload = '[{"n": 1.50}, {"n": 2}, {"n": 3, "unknown": "é"}]'
    connection.execute("select graphile_worker.add_job('send', %s::json)", [payload])
    await run_all(app)

    job = only_job(connection)
    assert job.last_error == "2 batch item(s) failed: 0: ValueError: a, 2: b"
    assert (job.attempts, job.locked_at, job.due_in > 1) == (1, None, True)
    [(stored,)] = connection.execute("select payload::text from graphile_worker._private_jobs")
    assert stored == '[{"n": 1.50},{"n": 3, "unknown": "é"}]'


async def test_an_item_whose_error_is_empty_has_failed(app: App, client: Client, connection) -> None:
    answering(app, [None, "", None])
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    assert (only_job(connection).payload, only_job(connection).last_error) == (
        [ITEMS[1]],
        "1 batch item(s) failed: 1: ",
    )


async def test_what_is_left_is_written_together_with_the_failure(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    connection.execute(
        "create table changes (attempts int, payload json, is_locked boolean);"
        "create function note() returns trigger language plpgsql as $$ begin"
        " insert into public.changes values (new.attempts, new.payload, new.locked_at is not null); return new; end $$;"
        "create trigger note before update on graphile_worker._private_jobs for each row execute function note()"
    )
    answering(app, lambda items: [None, ValueError("x"), None])
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    changes = connection.execute("select * from changes").fetchall()
    assert changes == [(1, ITEMS, True), (1, [ITEMS[1]], False)]


async def test_a_batch_shrinks_from_attempt_to_attempt(app: App, client: Client, connection) -> None:
    calls = answering(app, lambda items: [None, *[ValueError("not yet")] * (len(items) - 1)], retry=FixedDelay(0))
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    assert calls == [ITEMS, ITEMS[1:], ITEMS[2:]]
    assert jobs(connection) == []


async def test_a_batch_can_fail_for_good(app: App, client: Client, connection: psycopg.Connection) -> None:
    answering(app, BatchResult.fail_all(Fail("no such account")))
    await client.add_batch_job("send", ITEMS)
    await run_all(app)

    assert (only_job(connection).attempts, only_job(connection).last_error) == (25, "Fail: no such account")


async def test_a_payload_that_is_no_list_fails(app: App, client: Client, connection: psycopg.Connection) -> None:
    calls = answering(app, None)
    await client.add_raw_job("send", {"n": 1})
    await run_all(app)

    job = only_job(connection)
    assert (calls, job.payload, job.attempts) == ([], {"n": 1}, 1)
    assert "send" in job.last_error


async def test_an_item_that_cannot_be_decoded_fails_the_batch_untouched(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task(batch=True)
    async def send(items: list[int]) -> None:
        raise AssertionError("never called")

    await client.add_raw_job("send", [1, "two", 3])
    await run_all(app)

    job = only_job(connection)
    assert (job.payload, job.attempts) == ([1, "two", 3], 1)
    assert "send" in job.last_error


async def test_partial_failures_are_told_like_others(app: App, client: Client, connection: psycopg.Connection) -> None:
    hooks, told = HookRegistry(), []
    for event in (JobFail, JobPermanentlyFail):
        hooks.on(event, told.append)
    answering(app, lambda items: [None, *[ValueError("x")] * (len(items) - 1)])
    await client.add_batch_job("send", ITEMS, JobSpec(max_attempts=2))

    await run_all(app, hooks=hooks)
    due_now(connection)
    await run_all(app, hooks=hooks)

    assert [type(event) for event in told] == [JobFail, JobPermanentlyFail]
    assert "2 batch item(s) failed" in told[0].error


async def test_a_hook_that_fails_a_batch_keeps_what_is_left(app: App, client: Client, connection) -> None:
    hooks = HookRegistry()
    hooks.on(AfterJobRun, lambda event: Reject("the hook says no"))
    answering(app, [None, None, ValueError("x")])
    await client.add_batch_job("send", ITEMS)
    await run_all(app, hooks=hooks)

    job = only_job(connection)
    assert (job.last_error, job.payload) == ("the hook says no", ITEMS[2:])
