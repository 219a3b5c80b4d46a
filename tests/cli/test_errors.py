"""Every error is one message without secrets, and the exit code says what kind of error it is."""

from __future__ import annotations

import json
import os
import socket
from contextlib import redirect_stderr
from typing import TYPE_CHECKING

import pytest

from ferryman import SyncClient
from ferryman.cli.command_errors import ErrorFormat, ErrorMessage, report_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.commands import Ran

WRONG_URLS = [
    "postgresql://me:hunter2@127.0.0.1:1/db",
    "postgresql://me:hunter2@127.0.0.1:port/db",
    "postgresql://me:hun ter2@127.0.0.1:1/db",
    "postgresql://me:ter2%zz@127.0.0.1:1/db",
    "postgresql://me:p@ter2@127.0.0.1:1/db",
    "postgresql://me:p/ter2@127.0.0.1:1/db",
    "postgresql://me:ter2@[127.0.0.1:1/db",
    "host=127.0.0.1 port=1 password=hunter2 bogus=1",
    "host=127.0.0.1 port=1 password='hun ter2",
    "me:hunter2@127.0.0.1:1/db",
    "mysql://me:hunter2@127.0.0.1:1/db",
]


def test_without_a_database_the_message_says_where_it_looked_and_how_to_start_one(run: Callable[..., Ran]) -> None:
    ran = run("jobs", "list")

    assert ran.code == 1
    assert ran.err.startswith("Error: no database is configured. Looked at")
    assert ran.err.endswith("run: ferryman postgres\n")
    assert "Traceback" not in ran.err


def test_a_database_that_does_not_answer_is_named(run: Callable[..., Ran]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        ran = run("migrate", "--database-url", f"postgresql://me@127.0.0.1:{port}/app")

    assert ran.code == 1
    assert f"could not connect to app at 127.0.0.1:{port}" in ran.err
    assert "refused. Check that PostgreSQL runs there" in ran.err
    assert "ferryman postgres" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("url", WRONG_URLS)
@pytest.mark.parametrize("option", ["--json", "--debug"])
def test_no_part_of_a_password_is_shown(run: Callable[..., Ran], url: str, option: str) -> None:
    ran = run("jobs", "list", "--database-url", url, option)

    assert ran.code == 1
    assert "ter2" not in ran.out + ran.err


def test_a_url_in_the_wrong_place_is_not_repeated_with_its_password(run: Callable[..., Ran]) -> None:
    ran = run("migrate", "postgresql://me:hunter2@host/db")

    assert ran.code == 2
    assert "hunter2" not in ran.err


def test_errors_are_json_when_json_is_asked_for(run: Callable[..., Ran]) -> None:
    assert run("jobs", "list", "--json").error["type"] == "NoDatabaseError"

    usage = run("jobs", "list", "--json", "--bogus")
    assert usage.code == 2
    assert "--bogus" in usage.error["message"]


def test_a_traceback_is_shown_only_when_asked_for(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" in run("jobs", "list", "--debug").err
    assert "Traceback" in run("jobs", "list", "--debug", "--json").error["traceback"]

    monkeypatch.setenv("FERRYMAN_DEBUG", "1")
    assert "Traceback" in run("jobs", "list").err
    monkeypatch.setenv("FERRYMAN_DEBUG", "0")
    assert "Traceback" not in run("jobs", "list").err


def test_an_error_that_nobody_foresaw_is_a_sentence_too(
    ferryman: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(_: SyncClient) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(SyncClient, "counts", break_down)
    ran = ferryman("jobs", "counts")

    assert ran.code == 1
    assert ran.err.startswith("Error: ZeroDivisionError: by zero. Ferryman did not expect this")
    assert "Traceback" not in ran.err


def test_an_interrupted_command_says_so(ferryman: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: SyncClient) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SyncClient, "counts", interrupt)
    ran = ferryman("jobs", "counts")

    assert ran.code == 130
    assert ran.err.endswith("Error: interrupted.\n")


@pytest.mark.parametrize(
    ("options", "variable", "is_line"),
    [
        (["--log-format", "json"], "", True),
        (["--log-format=json"], "text", True),
        ([], "json", True),
        (["--log-format", "text"], "json", False),
    ],
)
def test_an_error_of_a_worker_with_json_logs_is_a_line_of_the_log(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, options: list[str], variable: str, is_line: bool
) -> None:
    monkeypatch.setenv("FERRYMAN_LOG_FORMAT", variable)

    ran = run("worker", "tasks", "--grace", "soon", *options)

    assert ran.code == 2
    if is_line:
        line = json.loads(ran.err)
        assert (line["level"], line["event"]) == ("error", "command_failed")
        assert "Invalid value for '--grace'" in line["message"]
    else:
        assert "Error: Invalid value for '--grace'" in ran.err


@pytest.mark.parametrize(("no_color", "is_red"), [("", True), ("1", False)])
def test_an_error_at_a_terminal_is_red_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, no_color: str, is_red: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    ours, theirs = os.openpty()
    try:
        with os.fdopen(theirs, "w") as terminal:
            with redirect_stderr(terminal):
                report_error(ErrorMessage("NotFoundError", "gone."), ErrorFormat())
            terminal.flush()
            shown = os.read(ours, 1000)
    finally:
        os.close(ours)

    assert b"gone." in shown
    assert (b"\x1b[31m" in shown) == is_red


def test_the_advice_for_a_wrong_url_shows_its_example_whole(run: Callable[..., Ran]) -> None:
    ran = run("jobs", "list", "--database-url", "mysql://me:hunter2@127.0.0.1:1/db")

    assert "It should look like postgresql://user:<password>@host:5432/database," in ran.err
