"""A worker process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ferryman.cli.beginning import STOP_SIGNALS
from ferryman.cli.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.cli.worker.plan import Plan

# Interpreter flags (-O, -W, -X and their kin) are passed on as multiprocessing does it.
# The path comes first, so that Ferryman is found wherever the supervisor found it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from ferryman.cli.beginning import begin_child; begin_child(); "
    "from ferryman.cli.worker.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class SupervisedProcess:
    """A fresh interpreter that runs one worker, and dies with its supervisor."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self.pid = process.pid
        self.was_ready = False
        self.is_dismissed = False
        self.recycled_because: str | None = None
        self.started_at = time.monotonic()

    @classmethod
    async def start(cls, plan: Plan) -> SupervisedProcess:
        """Start it; the plan travels over a channel, because others can read a command line."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        arguments = (*flags, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), *sys.path)
        with theirs:
            inherited = [theirs.fileno()] if plan.log_turns is None else [theirs.fileno(), plan.log_turns]
            # Linux ends a child with the thread that started it: this must be the thread of the event loop.
            # It inherits blocked signals, and hears them when it can: Ctrl-C in an import would print a traceback.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *arguments, stdin=subprocess.DEVNULL, pass_fds=inherited
                )
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        with suppress(OSError):  # it died at once; its exit code tells the rest
            await asyncio.get_running_loop().sock_sendall(ours, msgspec.json.encode(plan) + b"\n")
        return cls(process, ours)

    @property
    def lived_seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.started_at

    async def watch(self, vitals: Vitals, on_pulse: Callable[[], None]) -> int:
        """Keep `vitals` up to date until the process has ended; its exit code, negative for a signal."""
        loop = asyncio.get_running_loop()
        left = b""
        with self._channel, suppress(OSError):
            while received := await loop.sock_recv(self._channel, 65536):
                *lines, left = (left + received).split(b"\n")
                for line in lines:
                    self._hear(line, vitals)
                on_pulse()
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        # Not by asyncio's send_signal: that looks first whether the process has ended, and whoever sees it takes the
        # exit code along. Its own watcher then finds none, and reports 255.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _hear(self, line: bytes, vitals: Vitals) -> None:
        heard = msgspec.json.decode(line, type=Vitals)
        vitals.hear(heard)
        self.was_ready = self.was_ready or heard.state == "ready"
        self.recycled_because = heard.recycled_because
