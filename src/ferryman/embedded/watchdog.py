"""The process that owns a server: it keeps the server running while processes use it, and stops it afterwards.

`detached.py` starts it in a session of its own. It is a single loop over one question: does any process still hold the
lock on `leases.lock`?
"""

import os
import queue
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

from ferryman.embedded.account import account_for
from ferryman.embedded.locks import FileLock, acquire, open_lock, release
from ferryman.embedded.paths import WatchdogOptions
from ferryman.embedded.postmaster import SupervisedServer
from ferryman.errors import EmbeddedServerError

READY = b"ready"
QUICK_TICK_SECONDS = 0.02
TICK_SECONDS = 0.25


class Watchdog:
    """Keeps the server of one folder running while it has users, and stops it afterwards.

    `check` looks once; `run` looks until the server is stopped.
    """

    def __init__(self, options: WatchdogOptions) -> None:
        self._files = options.files
        self._linger_seconds = options.linger_seconds
        self._lock = FileLock(options.lock)  # acquired by the process that started us, and inherited
        self._leases = open_lock(self._files.leases)
        self._server = SupervisedServer(options, account_for(self._files.data))
        self._idle_since: float | None = None
        self._must_stop = False
        self._has_reported = False
        # Not an Event: a signal that arrives while a handler sets it would wait for its lock for ever.
        self._wake_ups: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self) -> None:
        """Check the server and its users until the server is stopped."""
        self._listen_to_signals()
        self._write_process_id()
        while not self.check():
            with suppress(queue.Empty):
                self._wake_ups.get(timeout=TICK_SECONDS if self._server.is_ready else QUICK_TICK_SECONDS)

    def check(self) -> bool:
        """Keep the server running, or stop it if no process uses it. Returns True once it is stopped."""
        if self._must_stop or not self._is_folder_there() or self._is_unused_for_long():
            self._server.stop()
            return True
        self._server.keep_running()
        self._report_ready()
        return False

    def _report_ready(self) -> None:
        if self._server.is_ready and not self._has_reported:
            self._has_reported = True
            report(READY)

    def _is_folder_there(self) -> bool:
        # A removed folder takes its locks with it, and its server would run for ever.
        try:
            return os.path.samestat(self._files.watched.stat(), os.fstat(self._lock.descriptor))
        except FileNotFoundError:
            return False
        except OSError:
            return True  # not known: it may be unreachable for a while

    def _is_unused_for_long(self) -> bool:
        if not acquire(self._leases):
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or time.monotonic()
        if time.monotonic() - self._idle_since >= self._linger_seconds:
            return True  # and keep the lock: a new user waits until the server is stopped, then starts another
        release(self._leases)
        return False

    def _write_process_id(self) -> None:
        os.ftruncate(self._lock.descriptor, 0)
        os.pwrite(self._lock.descriptor, str(os.getpid()).encode(), 0)

    def _listen_to_signals(self) -> None:
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGCHLD, self._on_child)

    def _on_terminate(self, number: int, _frame: FrameType | None) -> None:
        self._must_stop = True
        self._wake_ups.put(number)

    def _on_child(self, number: int, _frame: FrameType | None) -> None:
        self._wake_ups.put(number)


def report(message: bytes) -> None:
    """Send a message to the process that started this watchdog, and close the pipe to it."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), message)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main(options: str) -> None:
    """Run a watchdog until its server is stopped. If the server cannot be started, report the reason."""
    os.umask(0o077)
    try:
        Watchdog(WatchdogOptions.from_json(options)).run()
    except (EmbeddedServerError, OSError) as problem:
        report(str(problem).encode())
        raise
