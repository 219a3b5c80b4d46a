"""Worker processes, from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import until

from ferryman.worker import sync_points

if TYPE_CHECKING:
    from .history import History

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """A worker in a process of its own. `faults` are those of `ferryman.worker.sync_points`."""

    def __init__(
        self,
        dsn: str,
        history: History,
        *,
        faults: str = "",
        concurrency: int = 3,
        poll_seconds: float = 0.5,
        statement_seconds: float = 30.0,
        gather_seconds: float = 0.0,
    ) -> None:
        self._history = history
        options = {
            "concurrency": concurrency,
            "poll_seconds": poll_seconds,
            "statement_seconds": statement_seconds,
            "gather_seconds": gather_seconds,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.working", dsn, str(history.path), json.dumps(options)],
            env={**os.environ, sync_points.SETTING: faults, sync_points.HISTORY: str(history.path)},
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def worker_id(self) -> str:
        """The worker's id; see `ready`."""
        [line] = self._history.lines("ready", pid=self.pid)
        return line["worker"]

    async def ready(self) -> None:
        """Wait until it is about to claim jobs."""
        await until(lambda: bool(self._history.lines("ready", pid=self.pid)), "the worker starts")

    async def died(self) -> int:
        """Wait until the process is gone; its exit code."""
        await until(lambda: self._process.poll() is not None, "the worker process ends")
        self._history.note("died", process=self.pid)
        return self._process.returncode

    async def froze(self) -> None:
        """Wait until the process is stopped."""
        await until(lambda: self._state() == "T", "the worker process is stopped")

    async def reached(self, point: str) -> None:
        """Wait until it was at a sync point."""
        await until(lambda: bool(self._history.lines("reached", pid=self.pid, point=point)), f"{point} is reached")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
