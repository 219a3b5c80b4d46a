"""The process that owns the server: keeps it running while somebody uses it, stops it afterwards.

It is started by `detached.py`, lives in its own session, and is a single loop over one question: does any process
still hold a lease?
"""

import os
import queue
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

from ferryman.embedded.account import account_for
from ferryman.embedded.locks import FileLock, open_lock, release, take
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.supervised import SupervisedServer
from ferryman.errors import EmbeddedServerError

READY = b"ready"
QUICK_TICK_SECONDS = 0.02
TICK_SECONDS = 0.25


class Watchdog:
    """Watches one folder. `once` is a single look; `run` looks until there is nothing left to watch."""

    def __init__(self, orders: WatchOrders) -> None:
        self._layout = orders.layout
        self._linger_seconds = orders.linger_seconds
        self._lock = FileLock(orders.lock)  # taken by whoever started us, and ours from birth
        self._leases = open_lock(self._layout.leases)
        self._server = SupervisedServer(orders, account_for(self._layout.data))
        self._idle_since: float | None = None
        self._is_told_to_stop = False
        self._has_reported = False
        # Not an Event: a signal that comes while a handler sets it would wait for its lock, for ever.
        self._nudges: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self) -> None:
        """Look until the server is stopped."""
        self._listen_to_signals()
        self._sign_lock()
        while not self.once():
            with suppress(queue.Empty):
                self._nudges.get(timeout=TICK_SECONDS if self._server.is_ready else QUICK_TICK_SECONDS)

    def once(self) -> bool:
        """Look once; True when the server was stopped and the watch is over."""
        if self._is_told_to_stop or not self._is_our_folder() or self._is_unused_for_long():
            self._server.stop()
            return True
        self._server.keep_running()
        self._report_ready()
        return False

    def _report_ready(self) -> None:
        if self._server.is_ready and not self._has_reported:
            self._has_reported = True
            report(READY)

    def _is_our_folder(self) -> bool:
        # A removed folder takes its locks with it; a server without one would run for ever.
        try:
            return os.path.samestat(self._layout.watched.stat(), os.fstat(self._lock.descriptor))
        except FileNotFoundError:
            return False
        except OSError:
            return True  # not known: it may be locked away for a while

    def _is_unused_for_long(self) -> bool:
        if not take(self._leases):
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or time.monotonic()
        if time.monotonic() - self._idle_since >= self._linger_seconds:
            return True  # and keep the lock: a newcomer waits until the server is stopped, then starts a new one
        release(self._leases)
        return False

    def _sign_lock(self) -> None:
        os.ftruncate(self._lock.descriptor, 0)
        os.pwrite(self._lock.descriptor, str(os.getpid()).encode(), 0)

    def _listen_to_signals(self) -> None:
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGCHLD, self._on_child)

    def _on_terminate(self, number: int, _frame: FrameType | None) -> None:
        self._is_told_to_stop = True
        self._nudges.put(number)

    def _on_child(self, number: int, _frame: FrameType | None) -> None:
        self._nudges.put(number)


def report(message: bytes) -> None:
    """Answer whoever started us, and hang up."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), message)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main(orders: str) -> None:
    """Watch until the server is stopped; say so if it could not be started."""
    os.umask(0o077)
    try:
        Watchdog(WatchOrders.from_json(orders)).run()
    except (EmbeddedServerError, OSError) as problem:
        report(str(problem).encode())
        raise
