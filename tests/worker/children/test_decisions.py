"""What a handler decides in a child process is what happens to its job, whatever it is made of and however large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App
from tests.support.workers import jobs, only_job, run_all
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from ferryman import Client

LARGE = 70_000
"""More bytes than an exception could hold when it was still pickled."""


@pytest.fixture
def app(database: str) -> App:
    made = App(database)
    made.include(process_tasks.app)
    return made


async def job_after(app: App, client: Client, connection: psycopg.Connection, task: str, payload: object) -> Any:
    """The job of a task after its first attempt."""
    await client.add_raw_job(task, payload)
    await run_all(app)
    return only_job(connection)


async def test_a_reason_of_any_size_fails_a_job_for_good(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "give_up_at_length", {"size": LARGE})
    assert job.attempts == job.max_attempts
    assert job.last_error.startswith("Fail: xxxx")
    assert len(job.last_error) < 20_000


async def test_a_retry_keeps_its_delay_and_its_payload_whatever_their_size(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "ask_for_more", {"size": LARGE})
    assert (job.payload, job.last_error) == ({"size": 0, "text": "y" * LARGE}, "Retry: again")
    assert (round(job.due_in), job.attempts) == (7 * 60, 1)


async def test_a_snooze_that_cannot_be_pickled_is_a_snooze(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "rest_oddly", {})
    assert (round(job.due_in), job.attempts, job.last_error) == (3 * 60, 0, None)


async def test_items_fail_with_any_exception_and_only_those_are_tried_again(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "some_fail", [0, 17, 0])
    assert (job.payload, job.attempts) == ([17], 1)
    assert job.last_error == "1 batch item(s) failed: 1: CodedError: 17: no such item"
    assert round(job.due_in) == 3600


@pytest.mark.parametrize("task", ["fail_with_a_code", "fail_with_a_code_class"])
async def test_a_retry_policy_sees_the_exception_itself(
    app: App, client: Client, connection: psycopg.Connection, task: str
) -> None:
    job = await job_after(app, client, connection, task, {"code": 99})
    assert round(job.due_in) == 99
    assert job.last_error.startswith("CodedError: 99: busy\n\nTraceback (most recent call last):\n")


@pytest.mark.parametrize("task", ["return_something_hostile", "raise_something_hostile"])
async def test_nothing_of_a_child_is_run_in_its_worker(
    app: App, client: Client, connection: psycopg.Connection, tmp_path: Path, task: str
) -> None:
    job = await job_after(app, client, connection, task, {"path": str(tmp_path / "was-here")})
    assert job.attempts == 1
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("message", ["no JSON", '{"type":"unknown"}', "[" * 100_000, '{"type":"decision","error":7}'])
async def test_a_child_that_speaks_nonsense_is_ended_and_fails_its_attempt(
    app: App, client: Client, connection: psycopg.Connection, message: str
) -> None:
    job = await job_after(app, client, connection, "speak_out_of_turn", {"message": message})
    assert "sent its worker a message that cannot be read" in job.last_error
    assert job.attempts == 1


async def test_a_worker_makes_no_room_for_more_than_a_child_may_send(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "announce_too_much", {})
    assert "tried to send its worker 800,000,000 bytes" in job.last_error


async def test_a_result_that_is_too_large_fails_the_attempt_and_says_so(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    job = await job_after(app, client, connection, "return_much", {"size": 20_000_000})
    assert "returned a value of 20,000,002 bytes, and at most 16,777,216 can leave its process" in job.last_error
    assert job.attempts == 1


async def test_a_result_that_is_not_too_large_is_a_success(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("return_much", {"size": 10_000_000})
    await run_all(app)
    assert jobs(connection) == []
