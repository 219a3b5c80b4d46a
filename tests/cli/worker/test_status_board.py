"""The status line at the bottom of a terminal, and what is printed above it."""

from __future__ import annotations

import io

import click

from ferryman.cli.worker.status_board import CLEAR_LINE, AboveStatusLine, StatusLine
from ferryman.cli.worker.vitals import Counts, Vitals


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
