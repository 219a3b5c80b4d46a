"""What becomes of a job when its handler ends: one way or another, never the worker's end."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Fail, JobSpec, Retry, Snooze
from ferryman.hooks import AfterJobRun, HookRegistry
from ferryman.retries import FixedDelay, LinearDelay
from ferryman.worker.settling.outcomes import MAX_ERROR_LENGTH
from tests.support.logs import logged
from tests.support.workers import due_now, jobs, only_job, queues, run_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg

    from ferryman import App, Client


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no comment")


def raising(app: App, error: BaseException, **options: Any) -> None:
    """Define a task, `end`, that raises this."""

    @app.task(**options)
    async def end() -> None:
        raise error


async def test_a_job_that_is_done_leaves_no_row(app: App, client: Client, connection: psycopg.Connection) -> None:
    @app.task
    async def end() -> str:
        return "ignored"

    await client.add_job(end.job(), JobSpec(queue_name="letters"))
    await run_all(app)

    assert jobs(connection) == []
    assert queues(connection)[0].locked_at is None


@pytest.mark.parametrize("attempt", [1, 2, 5, 10, 11, 24])
async def test_a_failed_job_keeps_its_error_and_waits_longer_each_time(
    app: App, client: Client, connection: psycopg.Connection, attempt: int
) -> None:
    raising(app, ValueError("no such address"))
    await client.add_raw_job("end")
    connection.execute("update graphile_worker._private_jobs set attempts = %s", [attempt - 1])

    await run_all(app)

    job = only_job(connection)
    assert job.last_error.startswith("ValueError: no such address\n\nTraceback")
    assert (job.attempts, job.max_attempts, job.locked_at, job.locked_by) == (attempt, 25, None, None)
    assert job.due_in == pytest.approx(math.exp(min(attempt, 10)), abs=2)


async def test_the_delay_of_a_failed_job_counts_from_its_run_at_if_that_lies_ahead(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task
    async def end() -> None:
        connection.execute("update graphile_worker._private_jobs set run_at = now() + interval '1 hour'")
        raise ValueError("not now")

    await client.add_raw_job("end")
    await run_all(app)

    assert only_job(connection).due_in == pytest.approx(3600 + math.e, abs=2)


async def test_a_failed_job_runs_again_only_when_its_time_has_come(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    raising(app, ValueError("again"))
    await client.add_raw_job("end")

    await run_all(app)
    await run_all(app)
    assert only_job(connection).attempts == 1

    due_now(connection)
    await run_all(app)
    assert only_job(connection).attempts == 2


async def test_a_job_without_attempts_left_stays_as_failed(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    raising(app, ValueError("never"), retry=FixedDelay(0))
    await client.add_raw_job("end", spec=JobSpec(max_attempts=3))

    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.max_attempts, job.is_available, job.locked_at) == (3, 3, False, None)
    assert job.last_error.startswith("ValueError: never")


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (FixedDelay(500), 500),
        (LinearDelay(100), 300),
        (lambda attempts, error: timedelta(seconds=attempts * len(str(error))), 15),
        (lambda attempts, error: None, math.exp(3)),
        (lambda attempts, error: 1 / 0, math.exp(3)),
    ],
    ids=["fixed", "linear", "function", "undecided", "broken"],
)
async def test_a_retry_policy_decides_the_delay(
    app: App, client: Client, connection: psycopg.Connection, policy: Any, seconds: float
) -> None:
    raising(app, ValueError("12345"), retry=policy)
    await client.add_raw_job("end")
    connection.execute("update graphile_worker._private_jobs set attempts = 2")

    await run_all(app)

    assert only_job(connection).due_in == pytest.approx(seconds, abs=2)


async def test_retry_fails_the_attempt_with_a_delay_of_its_own(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    raising(app, Retry("busy", after=timedelta(minutes=2)))
    await client.add_raw_job("end")

    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.last_error) == (1, "Retry: busy")
    assert job.due_in == pytest.approx(120, abs=2)


async def test_fail_leaves_no_attempt(app: App, client: Client, connection: psycopg.Connection) -> None:
    raising(app, Fail("no such customer"))
    await client.add_raw_job("end")

    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.max_attempts, job.last_error) == (25, 25, "Fail: no such customer")


async def test_snooze_does_not_count_the_attempt(app: App, client: Client, connection: psycopg.Connection) -> None:
    raising(app, Snooze(timedelta(minutes=3)))
    await client.add_raw_job("end")

    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.last_error) == (0, None)
    assert job.due_in == pytest.approx(180, abs=2)


async def test_a_delay_beyond_all_time_becomes_the_usual_one(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    raising(app, Retry("see you", after=timedelta.max))
    await client.add_raw_job("end")

    await run_all(app)

    job = only_job(connection)
    assert "could not be stored" in job.last_error
    assert job.due_in == pytest.approx(math.exp(1), abs=2)


EXITS = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(),
    StopAsyncIteration(),
]


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_async", [True, False], ids=["loop", "thread"])
async def test_exits_and_cancellations_of_a_handler_are_failures(
    app: App, client: Client, connection: psycopg.Connection, error: BaseException, is_async: bool
) -> None:
    if is_async:
        raising(app, error)
    else:

        @app.task
        def end() -> None:
            raise error

    await client.add_raw_job("end")
    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.locked_at) == (1, None)
    assert type(error).__name__ in job.last_error


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (ValueError("a\0b"), "ValueError: a\N{REPLACEMENT CHARACTER}b"),
        (ValueError("a\ud800b"), "ValueError: a?b"),
        (ValueError("x" * 10_000_000), "ValueError: xxx"),
        (UnprintableError(), "UnprintableError: (its message could not be read)"),
        (ValueError(), "ValueError\n"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
    ],
    ids=["nul", "surrogate", "huge", "unprintable", "silent", "group"],
)
async def test_hostile_errors_are_stored_as_far_as_possible(
    app: App, client: Client, connection: psycopg.Connection, error: Exception, stored: str
) -> None:
    raising(app, error)
    await client.add_raw_job("end")

    await run_all(app)

    job = only_job(connection)
    assert job.last_error.startswith(stored)
    assert len(job.last_error) <= MAX_ERROR_LENGTH + 10
    assert (job.attempts, job.locked_at) == (1, None)


async def test_an_undecodable_payload_names_the_task_and_the_field(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task
    async def send_letter(to: str, copies: int) -> None:
        raise AssertionError("never called")

    await client.add_raw_job("send_letter", {"to": "a@b.c", "copies": "many"})
    await run_all(app)

    job = only_job(connection)
    assert job.attempts == 1
    assert "send_letter" in job.last_error
    assert "copies" in job.last_error


async def test_a_future_that_ends_with_generator_exit_fails_only_its_job(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task
    async def end() -> None:
        broken = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(broken.set_exception, GeneratorExit())
        await broken

    await client.add_raw_job("end")
    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.locked_at) == (1, None)


async def test_a_failed_attempt_can_leave_another_payload_for_the_next(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task
    async def copy(start: int) -> None:
        raise Retry("half of it is done", payload={"start": start + 50})

    await client.add_job(copy.job(start=0))

    await run_all(app)

    job = only_job(connection)
    assert (job.payload, job.last_error, job.attempts) == ({"start": 50}, "Retry: half of it is done", 1)
    assert job.due_in == pytest.approx(math.e, abs=1)  # the usual delay, since none was given


async def leave_a_cancellation_behind() -> None:
    """What aiohttp 3.9 does when its time is over: cancel the task, catch that, and never say that it is settled."""
    with suppress(asyncio.CancelledError):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)


async def leave_a_cancellation_on_its_way() -> None:
    asyncio.current_task().cancel()


LEFTOVERS = pytest.mark.parametrize("leave", [leave_a_cancellation_behind, leave_a_cancellation_on_its_way])


@LEFTOVERS
@pytest.mark.parametrize("has_hook", [False, True], ids=["alone", "with a hook"])
async def test_a_job_that_succeeded_is_done_although_a_library_left_a_cancellation_behind(
    app: App, client: Client, connection: psycopg.Connection, leave: Callable[[], Awaitable[None]], has_hook: bool
) -> None:
    ran, hooks = [], HookRegistry()

    @app.task
    async def fetch(number: int) -> None:
        ran.append(number)
        await leave()

    if has_hook:

        @hooks.on(AfterJobRun)
        async def look(event: AfterJobRun) -> None:
            await asyncio.sleep(0)

    await client.add_jobs([fetch.job(number=number) for number in range(3)])
    await run_all(app, hooks=hooks)

    assert (ran, jobs(connection)) == ([0, 1, 2], [])


@LEFTOVERS
async def test_a_job_that_failed_uses_its_attempt_although_a_library_left_a_cancellation_behind(
    app: App, client: Client, connection: psycopg.Connection, leave: Callable[[], Awaitable[None]]
) -> None:
    @app.task
    async def fetch() -> None:
        await leave()
        raise ValueError("no answer")

    await client.add_raw_job("fetch")
    await run_all(app)

    job = only_job(connection)
    assert (job.attempts, job.locked_at) == (1, None)
    assert job.last_error.startswith("ValueError: no answer")


async def test_a_time_limit_of_the_handler_itself_is_not_told_as_that_of_its_task(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    @app.task(timeout=timedelta(minutes=5))
    async def ask() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    await client.add_raw_job("ask")
    await run_all(app)

    job = only_job(connection)
    assert job.last_error.startswith("TimeoutError\n\nTraceback")
    assert "in ask" in job.last_error


@pytest.mark.parametrize("decide", [lambda: Snooze(30), lambda: Retry(after=30)], ids=["Snooze", "Retry"])
async def test_a_decision_with_a_number_for_a_time_is_refused_where_it_is_made(
    app: App, client: Client, connection: psycopg.Connection, decide: Callable[[], Exception]
) -> None:
    @app.task
    async def wait() -> None:
        raise decide()

    await client.add_raw_job("wait")
    await run_all(app)

    job = only_job(connection)
    assert "takes a timedelta, not 30: say timedelta(seconds=…)" in job.last_error.partition("\n")[0]
    assert "in wait" in job.last_error
    assert job.attempts == 1


class FiveSeconds:
    def delay(self, attempts: int, error: BaseException) -> Any:
        return 5


@pytest.mark.parametrize("policy", [FiveSeconds(), lambda attempts, error: 5], ids=["an object", "a function"])
async def test_a_retry_policy_that_returns_a_number_is_named_and_the_error_of_the_handler_is_kept(
    app: App, client: Client, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture, policy: Any
) -> None:
    raising(app, ValueError("no such address"), retry=policy)
    await client.add_raw_job("end")
    await run_all(app)

    job = only_job(connection)
    assert job.last_error.startswith("ValueError: no such address")
    assert job.due_in == pytest.approx(math.e, abs=2)
    [record] = logged(caplog, "retry_policy_failed", task="end")
    assert "returns a timedelta or None, not 5" in str(record.exc_info[1])


@pytest.mark.parametrize(
    ("errors", "attempts", "stored"),
    [
        ([Fail("no such customer")], 25, "Fail: no such customer"),
        ([Retry("busy", payload={"start": 1}), ValueError("a sibling")], 1, "Retry: busy"),
        ([ExceptionGroup("inner", [Snooze(timedelta(hours=1))])], 0, None),
        ([Snooze(timedelta(hours=1)), ValueError("a sibling")], 1, "ExceptionGroup"),
        ([Fail("one"), Retry("another")], 1, "ExceptionGroup"),
    ],
    ids=["Fail", "Retry beside an error", "Snooze in two groups", "Snooze beside an error", "two decisions"],
)
async def test_the_only_decision_in_a_group_of_errors_counts(
    *,
    app: App,
    client: Client,
    connection: psycopg.Connection,
    errors: list[Exception],
    attempts: int,
    stored: str | None,
) -> None:
    @app.task
    async def gather(**_: Any) -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", errors)

    await client.add_raw_job("gather", {})
    await run_all(app)

    job = only_job(connection)
    assert job.attempts == attempts
    assert (job.last_error is None) if stored is None else job.last_error.startswith(stored)
