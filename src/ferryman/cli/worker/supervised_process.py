"""Starts a worker process under a supervisor: the code of both sides, and the channel between them.

The plan travels to the process over the channel, and its vitals come back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from ferryman.cli.command_errors import run_and_report
from ferryman.cli.early_signals import STOP_SIGNALS
from ferryman.cli.worker.log_output import LogLock, set_up_logs
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_board import write_above_status_line
from ferryman.cli.worker.vitals import Vitals
from ferryman.cli.worker.worker_process import WorkerProcess
from ferryman.lifeline import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

# The path comes first, so that Ferryman is found wherever the supervisor found it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from ferryman.cli.early_signals import prepare_child; prepare_child(); "
    "from ferryman.cli.worker.supervised_process import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


def main(descriptor: int, parent_pid: int) -> NoReturn:
    """Run a worker for the supervisor at the other end of the channel, and exit."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    die_with_parent(channel, parent_pid)
    with channel.makefile("rb") as lines:
        plan = msgspec.json.decode(lines.readline(), type=Plan)
    sys.argv = ["ferryman", "worker", plan.target]
    if plan.counts:
        write_above_status_line()
    lock = None if plan.log_lock is None else LogLock.inherited(plan.log_lock)
    set_up_logs(plan.log_format, plan.log_level, verbose=plan.verbose, lock=lock)
    vitals = Vitals()
    channel.setblocking(False)

    def send_vitals() -> None:
        with suppress(OSError):  # a supervisor that reads slowly gets the next ones
            channel.send(msgspec.json.encode(vitals) + b"\n")

    sys.exit(run_and_report(WorkerProcess(plan, vitals, send_vitals).run, plan.error_format))


class SupervisedProcess:
    """A Python process that runs one worker, and ends if its supervisor ends."""

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
        """Start a process. The plan travels over a channel, because other users can read a command line."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        # Interpreter flags (-O, -W, -X and so on) are passed on as multiprocessing does it.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        arguments = (*flags, "-c", _PROGRAM, str(theirs.fileno()), str(os.getpid()), *sys.path)
        with theirs:
            inherited = [theirs.fileno()] if plan.log_lock is None else [theirs.fileno(), plan.log_lock]
            # Linux ends a child with the thread that started it: this must be the thread of the event loop.
            # The child inherits blocked signals, and handles them once it can: Ctrl-C within an import would print a
            # traceback.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *arguments, stdin=subprocess.DEVNULL, pass_fds=inherited
                )
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        with suppress(OSError):  # the process died at once; its exit code says the rest
            await asyncio.get_running_loop().sock_sendall(ours, msgspec.json.encode(plan) + b"\n")
        return cls(process, ours)

    @property
    def age_seconds(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.started_at

    async def watch(self, vitals: Vitals, on_pulse: Callable[[], None]) -> int:
        """Keep `vitals` up to date until the process has ended; return its exit code, negative for a signal."""
        loop = asyncio.get_running_loop()
        left = b""
        with self._channel, suppress(OSError):
            while received := await loop.sock_recv(self._channel, 65536):
                *lines, left = (left + received).split(b"\n")
                for line in lines:
                    self._update(vitals, line)
                on_pulse()
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Does nothing if the process has ended."""
        # Not asyncio's send_signal: it first checks whether the process has ended, and that check takes the exit code
        # along. asyncio's own watcher then finds none, and reports 255.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _update(self, vitals: Vitals, line: bytes) -> None:
        received = msgspec.json.decode(line, type=Vitals)
        vitals.update(received)
        self.was_ready = self.was_ready or received.state == "ready"
        self.recycled_because = received.recycled_because
