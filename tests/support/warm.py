"""Warm programs: modules of Python that cost a fork, not an interpreter and its imports.

`python -m tests.support.warm` is a fork server, one for each process of pytest. It has imported what programs need, and
does nothing else: no thread, no connection and no event loop is there to be forked. An order, with the descriptors of
the program, comes over a socket; the program's pid and its exit code go back over a socket of the program's own.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "asyncio",
    "ctypes",
    "psycopg",
    "ferryman.cli.program",
    "ferryman.cli.worker.worker_command",
    "ferryman.schema",
    "ferryman.worker",
    "tests.support.beats",
    "tests.support.carrying",
    "tests.support.history",
    "tests.support.programs.child_tasks",
    "tests.support.rhythms",
    "tests.support.waiting",
)
LONGEST_ORDER = 1 << 20
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: a module as `__main__`. `leads`: in a session of its own."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    leads: bool = False


class WarmProcess:
    """A program that the fork server runs, with the manners of `subprocess.Popen`."""

    def __init__(
        self, order: Order, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
    ) -> None:
        """As with `Popen`: nothing, or `subprocess.PIPE`, which for `stderr` is `subprocess.STDOUT`."""
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.returncode: int | None = None
        given = [0, 1, 2]
        if stdin == subprocess.PIPE:
            given[0], ours = os.pipe()
            self.stdin = os.fdopen(ours, "w")
        if stdout == subprocess.PIPE:
            ours, given[1] = os.pipe()
            self.stdout = os.fdopen(ours)
        if stderr == subprocess.STDOUT:
            given[2] = given[1]
        self._news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_fork_server(), [json.dumps(asdict(order)).encode()], [*given, theirs.fileno()])
        for descriptor in {*given} - {0, 1, 2}:
            os.close(descriptor)
        self.pid = self._hear()

    def poll(self) -> int | None:
        """The exit code, minus a signal's number; None while the program runs."""
        if self.returncode is None:
            with suppress(BlockingIOError):
                self._news.setblocking(False)
                self._end(self._hear())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit code."""
        if self.poll() is None:
            self._news.settimeout(timeout)
            try:
                self._end(self._hear())
            except TimeoutError:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0) from None
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self) -> int:
        told = self._news.recv(64)
        assert told, "the fork server has ended"
        return int(told)

    def _end(self, code: int) -> None:
        self.returncode = code
        self._news.close()


@functools.cache
def _fork_server() -> socket.socket:
    """Where to send orders. The server is started when it is needed first, and ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": ""},  # a line comes in one piece, also beside those of others
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # what a terminal sends to the tests is not for it
        )

    @atexit.register
    def end() -> None:
        ours.close()
        server.wait()

    return ours


@dataclass(frozen=True, slots=True)
class _Fork:
    pid: int
    news: socket.socket


class _ForkServer:
    """Forks and buries, in one thread."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> Order | None:
        """Serve until nobody can order any more. In each forked process, its order comes back."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._bury(key)
                    continue
                text, given, _, _ = socket.recv_fds(self._control, LONGEST_ORDER, 4)
                if not text:
                    self._end_all()
                    return None
                order = Order(**json.loads(text))
                if self._is_child(order, given):
                    return order

    def _is_child(self, order: Order, given: list[int]) -> bool:
        *standard, report = given
        news = socket.socket(fileno=report)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            news.close()
            self._forget()
            _die_with(server)
            _become(order, standard)
            return True
        for descriptor in standard:
            os.close(descriptor)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, _Fork(pid, news))
        _tell(news, pid)
        return False

    def _bury(self, key: selectors.SelectorKey) -> None:
        fork: _Fork = key.data
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        _, status = os.waitpid(fork.pid, 0)
        _tell(fork.news, os.waitstatus_to_exitcode(status))
        fork.news.close()

    def _end_all(self) -> None:
        forks = [key for key in self._selector.get_map().values() if key.data is not None]
        for key in forks:
            os.kill(key.data.pid, signal.SIGKILL)
        for key in forks:
            self._bury(key)

    def _forget(self) -> None:
        """Close what belongs to the server alone."""
        for key in [*self._selector.get_map().values()]:
            if key.data is not None:
                key.data.news.close()
                os.close(key.fd)
        self._selector.close()
        self._control.close()


def _tell(news: socket.socket, number: int) -> None:
    with suppress(OSError):  # a test may have left its program alone
        news.send(str(number).encode())


def _die_with(server: int) -> None:
    """Leave nothing behind, whatever becomes of the tests."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _become(order: Order, standard: list[int]) -> None:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _open_streams()
    if order.leads:
        os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)


def _open_streams() -> None:
    """Anew: those of the server have found out what kind of files they lead to."""
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _run(order: Order) -> None:
    """As `python -m` does, in this very `__main__`; then the interpreter ends as it always does."""
    sys.argv[1:] = order.arguments
    sys.path[0] = order.folder
    runpy._run_module_as_main(order.module)  # type: ignore[attr-defined]


def main(descriptor: int) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a thread would be lost in each program"
    gc.collect()
    gc.freeze()
    order = _ForkServer(socket.socket(fileno=descriptor)).serve()
    if order is not None:
        _run(order)


if __name__ == "__main__":
    main(int(sys.argv[1]))
