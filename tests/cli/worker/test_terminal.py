"""`ferryman worker` on a terminal: a line that counts jobs, below all other output."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import EXECUTABLE, WHOLE_LINES
from tests.support.waiting import DEADLINE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferryman import SyncClient

TASKS = """
from ferryman import App

app = App()


@app.task
async def say(word: str) -> None:
    print("said", word, flush=True)
"""


class Terminal:
    """`ferryman worker` whose input and output are a terminal of the test."""

    def __init__(self, folder: Path, environment: dict[str, str], options: tuple[str, ...]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [EXECUTABLE, "worker", *options],
            cwd=folder,
            env={**os.environ, **WHOLE_LINES, **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, pattern: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not re.search(pattern, self.text):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} never came in {self.text!r}"
            if select.select([self._ours], [], [], left)[0]:
                self.text += os.read(self._ours, 65536).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path, database: str) -> Iterator[Callable[..., Terminal]]:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "broken.py").write_text("1 / 0")
    opened: list[Terminal] = []

    def open_one(*options: str) -> Terminal:
        opened.append(Terminal(tmp_path, {"DATABASE_URL": database}, options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_the_last_line_counts_jobs(
    terminal: Callable[..., Terminal], sync_client: SyncClient, options: tuple[str, ...]
) -> None:
    sync_client.add_raw_job("say", {"word": "hello"})
    opened = terminal("tasks", *options)

    opened.read_until(r"\r\x1b\[2Ksaid hello\r\n")
    opened.read_until(r"\r\x1b\[2K0 running  1 done  0 failed  \d+/s")
    opened.process.terminate()
    assert opened.process.wait(DEADLINE_SECONDS) == 0


def test_an_error_is_told_at_a_terminal_too(terminal: Callable[..., Terminal]) -> None:
    opened = terminal("broken")

    opened.read_until("importing 'broken' failed at broken.py:1: ZeroDivisionError: division by zero\r\n")
    assert opened.process.wait(DEADLINE_SECONDS) == 1
    assert "Traceback" not in opened.text


def test_json_lines_are_left_alone(terminal: Callable[..., Terminal]) -> None:
    opened = terminal("tasks", "--log-format", "json")

    opened.read_until(r'"message": "worker \S+ started with 1 task"')
    assert "\x1b" not in opened.text
