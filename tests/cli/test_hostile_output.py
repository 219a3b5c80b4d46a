"""Hostile data is harmless on a terminal, and exact in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support.commands import Ran

HOSTILE = "[bold]x[/] :ship: \x1b]0;title\x07\x9b2J\u202e\n[/red]"


@pytest.fixture
def hostile_job(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> Callable[..., Ran]:
    ferryman("jobs", "add", HOSTILE, "--queue", HOSTILE, "--key", HOSTILE, "--flag", HOSTILE)
    connection.execute(
        "update graphile_worker._private_jobs set last_error = %s, locked_by = %s, locked_at = now()",
        [HOSTILE, HOSTILE],
    )
    return ferryman


@pytest.mark.parametrize("command", [["list"], ["show", "1"], ["complete", "1"], ["remove", HOSTILE]])
def test_nothing_in_a_job_is_interpreted(hostile_job: Callable[..., Ran], command: list[str]) -> None:
    shown = hostile_job("jobs", *command).out

    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert r"[bold]x[/] :ship: \x1b]0;title\x07\x9b2J\u202e" in shown


def test_json_carries_everything_as_it_is(hostile_job: Callable[..., Ran]) -> None:
    job = hostile_job("jobs", "show", 1, "--json").json

    assert [job["task_identifier"], job["queue_name"], job["key"], job["last_error"], job["locked_by"]] == [HOSTILE] * 5
    assert job["flags"] == [HOSTILE]


@pytest.mark.parametrize(
    "payload",
    [
        '{"a":1.10,"a":1e400}',
        '"\\ud800"',
        "123456789012345678901234567890.5",
        '"\\u0000\\u001b"',
        "[" * 3000 + "]" * 3000,
    ],
)
def test_a_payload_that_others_stored_is_passed_on_digit_by_digit(
    ferryman: Callable[..., Ran], connection: psycopg.Connection, payload: str
) -> None:
    ferryman("jobs", "add", "foreign")
    connection.execute("update graphile_worker._private_jobs set payload = %s", [payload])

    assert f'"payload":{payload},' in ferryman("jobs", "show", 1, "--json").out
    assert ferryman("jobs", "show", 1).code == 0


def test_a_schema_name_does_not_drive_the_terminal_either(ferryman: Callable[..., Ran]) -> None:
    shown = ferryman("schema", "status", "--schema", "\x1b[2J").out

    assert "\x1b" not in shown
    assert r"\x1b[2J" in shown


def test_an_error_message_does_not_drive_the_terminal(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "remove", HOSTILE)

    assert ran.code == 1
    assert not {"\x1b", "\x9b", "\u202e"} & set(ran.err)


def test_json_is_one_line_whatever_white_space_is_in_a_payload(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    ferryman("jobs", "add", "foreign")
    payload = '{\n "a b" : "\\ud800 \\" c",\n\t"d": 1\n}'
    connection.execute("update graphile_worker._private_jobs set payload = %s", [payload])

    shown = ferryman("jobs", "show", 1, "--json").out

    assert shown.count("\n") == 1
    assert r'"payload":{"a b":"\ud800 \" c","d":1},' in shown
