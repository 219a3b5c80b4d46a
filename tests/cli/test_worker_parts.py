"""The parts of `ferryman worker` that need no process: probes, the status line, log lines, changed files."""

from __future__ import annotations

import io
import json
import logging
import os
import time
from typing import TYPE_CHECKING

import click

from ferryman.cli.worker.logs import JsonFormatter, TextFormatter
from ferryman.cli.worker.reloading import Files
from ferryman.cli.worker.status_line import CLEAR_LINE, AboveStatusLine, StatusLine
from ferryman.cli.worker.vitals import LONGEST_SILENCE_SECONDS, Counts, Vitals, liveness, readiness

if TYPE_CHECKING:
    from pathlib import Path


def test_a_loop_that_is_silent_for_too_long_is_not_alive() -> None:
    long_ago = time.monotonic() - LONGEST_SILENCE_SECONDS - 1
    silent = Vitals("ready", seen_at=long_ago)

    assert liveness([Vitals("ready")]).is_good
    assert not liveness([Vitals("ready"), silent]).is_good
    assert "has not ticked for 31 s" in liveness([silent]).status


def test_a_long_import_is_no_reason_to_be_killed() -> None:
    assert liveness([Vitals("starting", seen_at=0.0)]).is_good


def test_ready_means_all_of_them() -> None:
    assert readiness([Vitals("ready"), Vitals("ready")]).status == "ready"
    assert readiness([Vitals("ready"), Vitals("starting")]).status == "starting"
    assert readiness([Vitals("stopping"), Vitals("starting")]).status == "stopping"
    assert not readiness([Vitals("ready"), Vitals("stopping")]).is_good


def test_the_status_line_sums_up_and_takes_the_rate_from_the_last_looks() -> None:
    line = StatusLine(io.StringIO())
    first, second = Vitals(counts=Counts(running=1, done=10)), Vitals(counts=Counts(running=2, failed=5))

    assert line.text([first, second], 100.0) == "3 running  10 done  5 failed  0/s"
    first.counts.done += 2000
    assert line.text([first, second], 102.0) == "3 running  2,010 done  5 failed  1,000/s"


def test_what_is_printed_goes_above_the_status_line() -> None:
    terminal = io.StringIO()
    StatusLine(terminal).draw([Vitals()])
    print("one", "two", file=AboveStatusLine(terminal))

    assert terminal.getvalue() == f"{CLEAR_LINE}0 running  0 done  0 failed  0/s{CLEAR_LINE}one two\n"


def test_a_stream_above_the_status_line_takes_what_the_terminal_takes() -> None:
    stream = AboveStatusLine(io.StringIO())
    click.echo("an error", file=stream)

    assert stream.getvalue() == f"{CLEAR_LINE}an error\n"


def test_a_log_line_names_the_job_and_interprets_nothing() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "to %s", ("\x1b[31mred postgresql://me:hunter2@host",), None)
    record.job_id, record.task = 7, "mail\n"

    text = TextFormatter().format(record)

    assert text.endswith(r"INFO    to \x1b[31mred postgresql://me:***@host job_id=7 task=mail\n")
    assert json.loads(JsonFormatter().format(record))["task"] == "mail\n"


def test_a_logged_exception_comes_with_its_traceback() -> None:
    error = ValueError("no good")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "sad", (), (ValueError, error, None))

    assert TextFormatter().format(record).endswith("\nValueError: no good")
    assert json.loads(JsonFormatter().format(record))["traceback"].endswith("ValueError: no good")


def test_changed_files_are_noticed_below_the_folder_but_not_those_of_others(tmp_path: Path) -> None:
    for folder in ("shop", ".venv", "env", "node_modules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "shop" / "a.py").touch()
    files = Files(tmp_path)

    for folder in (".venv", "env", "node_modules"):
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "shop" / "a.txt").touch()
    assert files.changed() is None
    os.utime(tmp_path / "shop" / "a.py", (1, 1))
    assert files.changed() == tmp_path / "shop" / "a.py"
    (tmp_path / "b.py").touch()
    assert files.changed() == tmp_path / "b.py"
    (tmp_path / "b.py").unlink()
    assert files.changed() == tmp_path / "b.py"
    assert files.changed() is None
