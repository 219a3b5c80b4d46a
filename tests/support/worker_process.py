"""Worker processes, from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferryman.worker import sync_points
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.history import History

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """A worker in a process of its own.

    faults: those of `ferryman.worker.sync_points`; None: it has no such points, and notes none
    program: the module to run; it may add tasks to those of `tests.support.programs.worker`
    listens: whether it hears of new jobs, or only polls
    popen: how to start the process, for `subprocess.Popen`
    """

    def __init__(
        self,
        dsn: str,
        history: History,
        *,
        faults: str | None = "",
        program: str = "tests.support.programs.worker",
        concurrency: int = 3,
        poll_seconds: float = 0.5,
        statement_seconds: float = 30.0,
        connect_seconds: int = 10,
        gather_seconds: float = 0.0,
        prefetch: int | None = None,
        listens: bool = True,
        popen: Mapping[str, Any] | None = None,
    ) -> None:
        self._history = history
        options = {
            "concurrency": concurrency,
            "poll_seconds": poll_seconds,
            "statement_seconds": statement_seconds,
            "connect_seconds": connect_seconds,
            "gather_seconds": gather_seconds,
            "prefetch": prefetch,
            "listens": listens,
        }
        points = {} if faults is None else {sync_points.SETTING: faults, sync_points.HISTORY: str(history.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, dsn, str(history.path), json.dumps(options)],
            env={**os.environ, **points},
            cwd=ROOT,
            **(popen or {}),
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

    def said(self, text: str) -> list[str]:
        """The lines of its log that contain this."""
        lines = self._history.lines("log", pid=self.pid)
        return [line["message"] for line in lines if text in line["message"]]

    async def in_trouble(self, *duties: str) -> None:
        """Wait until it has told that these duties fail."""
        for duty in duties:
            await until(lambda duty=duty: duty in self._troubles("failed and will be"), f"{duty} is in trouble")

    async def out_of_trouble(self, *duties: str) -> None:
        """Wait until all its trouble is over; each was told once when it began and once when it ended."""
        for duty in [*duties, *self._troubles("failed and will be")]:
            await until(lambda duty=duty: duty in self._troubles("works again"), f"{duty} works again")
        begun, ended = self._troubles("failed and will be"), self._troubles("works again")
        assert sorted(begun) == sorted(ended) == sorted({*begun}), (begun, ended)

    def _troubles(self, verb: str) -> list[str]:
        return [message.partition(f" {verb}")[0] for message in self.said(f" {verb}")]

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
