"""The `ferryman` command: run in this process for breadth, and as a process of its own where that matters."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from click.testing import CliRunner

from ferryman.cli.program import program
from tests.support.waiting import DEADLINE_SECONDS
from tests.support.warm import Order, WarmProcess

if TYPE_CHECKING:
    from types import TracebackType

EXECUTABLE = Path(sys.executable).with_name("ferryman")
LONG_STORM = "\nimport ferryman.worker.stopping\n\nferryman.worker.stopping.SECONDS_THAT_A_STORM_LASTS = 600.0\n"
"""A line for an application whose worker takes many signals for one, however long they take to come."""
WHOLE_LINES = {"PYTHONUNBUFFERED": ""}
"""What a process prints comes in one piece: unbuffered, the words of several processes would be mixed."""
JSON_LOGS = {"FERRYMAN_LOG_FORMAT": "json"}
STARTED = r"worker \S+ started with \d+ tasks?"
"""What a worker that logs for people says first."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one document on stderr."""
        assert self.out == ""
        return json.loads(self.err)["error"]


def run_here(*arguments: object, stdin: str | bytes | None = None) -> Ran:
    """Run `ferryman` in this process, on the database that the environment names."""
    with patch.object(sys, "path", [*sys.path]):  # a command adds its folder, where later tests would find modules
        result = CliRunner().invoke(program, [str(argument) for argument in arguments], input=stdin)
    return Ran(result.exit_code, result.stdout, result.stderr)


class RunningCommand:
    """`ferryman …` as a process of its own, whose stdout and stderr are read as they come."""

    def __init__(self, arguments: tuple[object, ...], folder: Path, environment: dict[str, str]) -> None:
        order = Order("ferryman.cli", [*map(str, arguments)], {**os.environ, **WHOLE_LINES, **environment}, str(folder))
        self._process = WarmProcess(order, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._is_silent = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear_away()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._is_silent = True
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
            self._news.wait_for(lambda: len(found()) >= times or self._is_silent, DEADLINE_SECONDS)
            assert len(found()) >= times, f"{pattern!r} did not come {times} times in:\n{self.text}"
            return found()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The documents of this event so far, in a log of JSON lines."""
        documents = (json.loads(line) for line in [*self.lines] if line.startswith("{"))
        return [each for each in documents if each.get("event") == name]

    def wait_for_event(self, name: str, times: int = 1) -> list[dict[str, Any]]:
        """The documents of this event, once there are so many."""
        self.wait_for(f'"event": "{name}"', times)
        return self.events(name)

    def wait_for_probes(self) -> tuple[str, str]:
        """The addresses where a worker tells whether it is alive, and whether it is ready."""
        [told] = self.wait_for_event("probes_answered")
        livez = re.findall(r"http://\S+", told["message"])[0]
        return livez, livez.replace("livez", "readyz")

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
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended while we looked
        if int(parent) == pid and state != "Z":
            found.add(int(entry.parent.name))
    return found
