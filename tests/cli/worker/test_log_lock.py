"""Processes that write to one pipe write one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ferryman.cli.worker import log_output
from ferryman.cli.worker.log_output import LogLock

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys
from ferryman.cli.worker.log_output import LogLock

with LogLock.inherited(int(sys.argv[1])).held():
    print("in the midst of a line", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_writes(descriptor: int) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(descriptor)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=[descriptor]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect each pause in which the lock is waited for. None takes time."""
    pauses: list[float] = []
    monkeypatch.setattr(log_output, "MOST_LOOKS", 3)
    monkeypatch.setattr(log_output.time, "sleep", pauses.append)
    return pauses


def test_a_process_that_stands_still_with_the_lock_is_waited_for_once_and_not_for_each_line(
    pauses: list[float],
) -> None:
    mine = LogLock.new()

    with another_process_writes(mine.descriptor):
        for _ in range(2):
            with mine.held():
                assert len(pauses) == 3
    with mine.held():
        assert len(pauses) == 3
    with another_process_writes(mine.descriptor), mine.held():
        assert len(pauses) == 6


def test_a_process_whose_reader_is_slow_is_waited_for_however_long_that_takes(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writes, b"x" * 4096)
    mine = LogLock(LogLock.new().descriptor, output=writes)

    with another_process_writes(mine.descriptor) as process:

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 100:
                process.communicate()

        monkeypatch.setattr(log_output.time, "sleep", pause)
        with mine.held():
            assert len(pauses) == 100
    for each in (reads, writes, mine.descriptor):
        os.close(each)
