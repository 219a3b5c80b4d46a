"""Log lines for people and for programs."""

from __future__ import annotations

import io
import json
import logging

import pytest

from ferryman.cli.worker.log_output import JsonFormatter, TextFormatter, has_colours


def test_a_log_line_names_the_job_and_interprets_nothing() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "to %s", ("\x1b[31mred postgresql://me:hunter2@host",), None)
    record.job_id, record.task = 7, "mail\n"

    text = TextFormatter(verbose=True).format(record)

    assert text.endswith(r"INFO    to \x1b[31mred postgresql://me:***@host job_id=7 task=mail\n")
    assert TextFormatter().format(record).endswith("***@host")
    assert json.loads(JsonFormatter().format(record))["task"] == "mail\n"


def test_a_terminal_shows_the_level_in_colour_and_what_is_said_as_text() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "\x1b[31mred", (), None)

    assert TextFormatter(colours=True).format(record).endswith("\x1b[33mWARNING\x1b[0m \\x1b[31mred")


@pytest.mark.parametrize(
    ("is_terminal", "variables", "expected"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, variables: dict[str, str], expected: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)

    assert has_colours() == expected


def test_a_logged_exception_comes_with_its_traceback() -> None:
    error = ValueError("no good")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "sad", (), (ValueError, error, None))

    assert TextFormatter().format(record).endswith("\nValueError: no good")
    assert json.loads(JsonFormatter().format(record))["traceback"].endswith("ValueError: no good")
