"""`ferryman jobs add`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferryman import SyncClient
    from tests.support.commands import Ran


def test_a_job_is_added_with_every_option(ferryman: Callable[..., Ran], sync_client: SyncClient) -> None:
    options = "--queue q --run-at 2040-01-01T00:00:00+01:00 --max-attempts 3 --key k --priority -5 --flag a --flag b"
    ran = ferryman("jobs", "add", "send", '{"to": "a@b.c"}', *options.split(), "--json")

    job = sync_client.get_job(ran.json["id"])
    assert job is not None
    assert (
        job.task_identifier,
        job.payload,
        job.queue_name,
        job.max_attempts,
        job.key,
        job.priority,
    ) == ("send", {"to": "a@b.c"}, "q", 3, "k", -5)
    assert datetime(2039, 12, 31, 23, tzinfo=UTC) == job.run_at
    assert job.flags == ("a", "b")


def test_without_a_payload_it_is_an_empty_object(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "add", "send")

    assert ran.out == "Added job 1 for send.\n"
    assert ferryman("jobs", "show", 1, "--json").json["payload"] == {}


def test_a_hyphen_reads_the_payload_from_standard_input(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "add", "send", "-", "--json", stdin='["é", 1.5]')

    assert ran.json["payload"] == ["é", 1.5]


def test_a_relative_time_schedules_the_job(ferryman: Callable[..., Ran]) -> None:
    before = datetime.now(UTC)
    ran = ferryman("jobs", "add", "send", "--run-at", "+1h30m", "--json")

    asked_at = datetime.fromisoformat(ran.json["run_at"]) - timedelta(minutes=90)
    assert before - timedelta(seconds=1) <= asked_at <= datetime.now(UTC)  # the output may have whole seconds only
    assert ran.json["state"] == "scheduled"


def test_a_taken_key_is_handled_as_the_mode_says(ferryman: Callable[..., Ran]) -> None:
    first = ferryman("jobs", "add", "send", "1", "--key", "k", "--json").json
    replaced = ferryman("jobs", "add", "send", "2", "--key", "k", "--json").json
    left = ferryman("jobs", "add", "send", "3", "--key", "k", "--key-mode", "unsafe-dedupe", "--json").json

    assert {first["id"]} == {first["id"], replaced["id"], left["id"]}
    assert (replaced["payload"], left["payload"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["send", "{to: 1}"], "it is not JSON: Expecting property name"),
        (["send", "NaN"], "NaN is not a JSON number"),
        (["send", "[" * 100_000], "nested too deeply"),
        (["send", "--run-at", "2030-01-31"], "has no time zone"),
        (["send", "--key-mode", "replace"], "Give the key with --key"),
        (["send", "--priority", "high"], "'high' is not a valid whole number."),
        ([], "Missing argument 'IDENTIFIER'"),
    ],
)
def test_what_is_not_understood_is_a_usage_error(
    ferryman: Callable[..., Ran], arguments: list[str], complaint: str
) -> None:
    ran = ferryman("jobs", "add", *arguments)

    assert ran.code == 2
    assert complaint in ran.err
    assert ferryman("jobs", "counts", "--json").json["total"] == 0


def test_input_that_is_not_text_is_refused(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "add", "send", "-", stdin=b'"\xff"')

    assert ran.code == 2
    assert "not UTF-8" in ran.err


def test_a_refused_payload_is_not_repeated(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "add", "send", '{"token": "hunter2"', "--debug")

    assert ran.code == 2
    assert "hunter2" not in ran.err


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--priority", "99999"], 2, "99999 is not in the range -32768<=x<=32767"),
        (["--max-attempts", "0"], 2, "0 is not in the range 1<=x<=32767"),
        (["--queue", "q" * 129], 1, "queue_name must have 1 to 128 characters"),
    ],
)
def test_a_value_that_the_queue_refuses_is_told_and_nothing_is_added(
    ferryman: Callable[..., Ran], options: list[str], code: int, complaint: str
) -> None:
    ran = ferryman("jobs", "add", "send", *options)

    assert ran.code == code
    assert complaint in ran.err
    assert ferryman("jobs", "counts", "--json").json["total"] == 0


TASKS = """
from ferryman import App

app = App({url!r})


@app.task(max_attempts=3, queue_name="user:{{user}}", priority=-2)
async def greet(user: int, name: str = "world") -> None: ...


@app.task(aliases=["old_mail"], upgrade=lambda payload: {{"to": payload["recipient"]}})
async def mail(to: str) -> None: ...
"""


@pytest.fixture
def tasks(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module with an application, which alone names the database."""
    name = f"tasks_{os.getpid()}_{abs(hash(database))}"
    (tmp_path / f"{name}.py").write_text(TASKS.format(url=database))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_with_an_application_the_options_of_the_task_hold_unless_others_are_given(
    run: Callable[..., Ran], tasks: str, sync_client: SyncClient
) -> None:
    run("jobs", "add", "greet", '{"user": 7}', "--app", tasks)
    run("jobs", "add", "greet", '{"user": 7, "name": "Ann"}', "--app", f"{tasks}:app", "--queue", "q", "--priority", 5)
    assert run("jobs", "add", "old_mail", '{"recipient": "a"}', "--app", tasks).code == 0

    *jobs, of_an_alias = sync_client.list_jobs().jobs
    assert (of_an_alias.task_identifier, of_an_alias.payload) == ("mail", {"recipient": "a"})
    assert [(job.queue_name, job.max_attempts, job.priority) for job in jobs] == [("user:7", 3, -2), ("q", 3, 5)]
    assert [job.payload for job in jobs] == [{"user": 7}, {"user": 7, "name": "Ann"}]


def test_with_an_application_a_job_that_no_worker_could_run_is_refused(
    run: Callable[..., Ran], tasks: str, sync_client: SyncClient
) -> None:
    for arguments, complaint in {
        ("gret", '{"user": 7}'): "greet",
        ("greet",): "user",
        ("greet", '{"user": "seven"}'): "user",
        ("greet", '{"user": 7, "nmae": "x"}'): "nmae",
        ("greet", "[7]"): "greet",
        ("mail", '{"to": "a"}'): "KeyError: 'recipient'",
    }.items():
        ran = run("jobs", "add", *arguments, "--app", tasks)
        assert ran.code == 1, arguments
        assert complaint in ran.err
        assert ran.err.endswith("Nothing was added.\n")
    assert run("jobs", "add", "greet", "--app", "nosuch").code == 1
    assert sync_client.counts().total == 0
