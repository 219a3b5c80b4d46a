"""Worker processes for tests: their lines as they come, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.cli.conftest import EXECUTABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEADLINE_SECONDS = 60.0
LONG_STORM = "\nimport ferryman.worker.stopping\n\nferryman.worker.stopping.SECONDS_THAT_A_STORM_LASTS = 600.0\n"
"""A line for an application whose worker takes many signals for one, however long they take to come."""
STARTED = r"worker \S+ runs \d+ tasks"


class Started:
    """`ferryman …` as a process of its own, whose stdout and stderr are read as they come."""

    def __init__(self, arguments: tuple[object, ...], folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [EXECUTABLE, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_for(self, pattern: str, times: int = 1) -> list[str]:
        """The lines in which the pattern was found, once there are so many."""

        def found() -> list[str]:
            return [line for line in self.lines if re.search(pattern, line)]

        with self._news:
            in_time = self._news.wait_for(lambda: len(found()) >= times, DEADLINE_SECONDS)
            assert in_time, f"{pattern!r} did not come {times} times in:\n{self.text}"
            return found()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code, and all lines are there."""
        code = self._process.wait(DEADLINE_SECONDS)
        self._reader.join(DEADLINE_SECONDS)
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait()

    def clear_away(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def until(is_true: Callable[[], Any], what: str) -> Any:
    """The first answer that is true; the test fails when none ever is."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (answer := is_true()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)
    return answer


def probe(address: str) -> tuple[int, str]:
    """The status of an answer, and what it says."""
    try:
        with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as answer:
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)["status"]


def children_of(pid: int) -> set[int]:
    """The processes that were started by this one and are not gone."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {int(child) for child, parent, state in rows if int(parent) == pid and not state.startswith("Z")}


def is_gone(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() == "" or state.startswith("Z")
