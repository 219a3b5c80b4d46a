"""Starts the workers of both sides as processes, and reads the history that they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_SECONDS = 600.0
RUST_NAME = "rust-peer"
"""What its sessions are called in pg_stat_activity and in the log."""


class RustPeer:
    """The compiled program, for one database."""

    def __init__(self, program: Path, url: str) -> None:
        self._program = str(program)
        self._environment = {"PATH": os.environ["PATH"], "DATABASE_URL": f"{url}?application_name={RUST_NAME}"}

    def run(self, command: str, **settings: Any) -> list[Any]:
        """Run a command to its end, and return the values that it printed."""
        done = subprocess.run(
            [self._program, command, json.dumps(settings)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise PeerError(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def working(self, **settings: Any) -> Any:
        """Run a worker of the crate for the length of a block."""
        return _working([self._program, "work", json.dumps(settings)], self._environment)


def ferryman_working(url: str, **settings: Any) -> Any:
    """Run a Ferryman worker for the length of a block."""
    command = [sys.executable, "-m", "benchmarks.rust_peer.ours", json.dumps(settings)]
    return _working(command, {**os.environ, "DATABASE_URL": url})


class PeerError(Exception):
    """The Rust program failed; the message is what it printed."""


@contextmanager
def _working(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise PeerError(f"{command[:2]} did not start")
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


def wait_for(fact: Callable[[], bool], what: str) -> None:
    """Wait until `fact` is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        if time.monotonic() > deadline:
            raise PeerError(f"this has not happened: {what}")
        time.sleep(0.1)


class History:
    """The events that handlers of both sides recorded, in their order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def started(self) -> Counter[str]:
        """Return how many jobs each side has started."""
        return Counter(event["by"] for event in self.events() if event["what"] == "start")

    def numbers(self, what: str, by: str | None = None) -> list[int]:
        """Return the numbers of jobs that started or ended, in order of number."""
        return sorted(event["n"] for event in self.events() if event["what"] == what and by in {None, event["by"]})

    def overlaps(self) -> list[str]:
        """Return queues in which a job started before the previous one had ended."""
        running: dict[str, int | None] = defaultdict(lambda: None)
        found = []
        for event in self.events():
            if (queue := event["queue"]) is None:
                continue
            if running[queue] != (None if event["what"] == "start" else event["n"]):
                found.append(queue)
            running[queue] = event["n"] if event["what"] == "start" else None
        return found
