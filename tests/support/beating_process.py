"""Processes that give signs of life, from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.beats import QUICK
from tests.support.waiting import until

if TYPE_CHECKING:
    import signal

    from ferryman.recovery.rhythm import Rhythm

ROOT = Path(__file__).parents[2]


class BeatingProcess:
    """One of them. What it tells is gathered by a thread."""

    def __init__(self, dsn: str, *, rhythm: Rhythm = QUICK) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.beating", dsn, json.dumps(asdict(rhythm))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._told: list[dict[str, Any]] = []
        self._gathering = threading.Thread(target=self._gather, daemon=True)
        self._gathering.start()

    @property
    def worker_id(self) -> str:
        return str(self.told("registered")[-1]["worker"])

    def told(self, event: str, **details: Any) -> list[dict[str, Any]]:
        """What it has told of this kind."""
        return [line for line in [*self._told] if line["event"] == event and details.items() <= line.items()]

    async def registered(self) -> None:
        await until(lambda: bool(self.told("registered")), "the process is registered")

    def order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._gathering.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _gather(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.append(json.loads(line))
