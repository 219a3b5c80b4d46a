"""Jobs with forbidden flags are left to others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import JobSpec
from ferryman.errors import ConfigurationError
from tests.support.waiting import until
from tests.support.workers import jobs, run_all, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client


@pytest.fixture
async def ran(app: App, client: Client) -> list[str]:
    """The flags of the jobs that ran; there is one job without flags, and three with."""
    noted: list[str] = []

    @app.task
    async def note(flags: str) -> None:
        noted.append(flags)

    for flags in ([], ["a"], ["b"], ["a", "c"]):
        await client.add_raw_job("note", {"flags": "".join(flags)}, JobSpec(flags=flags))
    return noted


async def ask_later() -> list[str]:
    await asyncio.sleep(0)
    return ["a"]


FORBIDDING_A = [["a"], ("a", "unused"), lambda: ["a"], ask_later]


@pytest.mark.parametrize("flags", FORBIDDING_A, ids=["list", "tuple", "function", "async function"])
async def test_jobs_with_a_forbidden_flag_are_left_alone(
    app: App, ran: list[str], connection: psycopg.Connection, flags: Any
) -> None:
    await run_all(app, forbidden_flags=flags)

    assert sorted(ran) == ["", "b"]
    assert [(job.attempts, job.flags) for job in jobs(connection)] == [(0, {"a": True}), (0, {"a": True, "c": True})]


NOTHING_FORBIDDEN = [[], ["unrelated"], list, lambda: None]


@pytest.mark.parametrize("flags", NOTHING_FORBIDDEN, ids=["none", "unrelated", "an empty answer", "no answer"])
async def test_without_forbidden_flags_all_jobs_run(app: App, ran: list[str], flags: Any) -> None:
    await run_all(app, forbidden_flags=flags)

    assert sorted(ran) == ["", "a", "ac", "b"]


async def test_a_function_is_asked_before_each_claim(app: App, client: Client, ran: list[str]) -> None:
    forbidden = ["a"]

    async with running(worker_of(app, forbidden_flags=lambda: forbidden)):
        await until(lambda: len(ran) == 2, "the allowed jobs run")
        forbidden.clear()
        await client.add_raw_job("note", {"flags": "new"})
        await until(lambda: len(ran) == 5, "now the others run too")


async def test_a_function_that_fails_does_not_end_the_worker(
    app: App, ran: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([ZeroDivisionError("no answer"), ["a"]])

    def flags() -> list[str]:
        answer = next(answers, ["a"])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with running(worker_of(app, forbidden_flags=flags)):
        await until(lambda: len(ran) == 2, "the allowed jobs run")

    assert "no answer" in caplog.text


async def test_a_single_string_is_refused(app: App, database: str) -> None:
    with pytest.raises(ConfigurationError, match="forbidden_flags"):
        worker_of(app, forbidden_flags="a")
