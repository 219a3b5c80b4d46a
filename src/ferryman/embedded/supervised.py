"""A PostgreSQL server under supervision: kept running, and stopped."""

import shutil
import signal
import time
from typing import TYPE_CHECKING

from ferryman.embedded.account import Account
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.locks import is_locked, try_lock
from ferryman.embedded.logfile import LogFile
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.place import choose_place, read_place
from ferryman.embedded.postmaster import read_postmaster
from ferryman.embedded.spawn import spawn_postgres
from ferryman.errors import EmbeddedServerError

if TYPE_CHECKING:
    from subprocess import Popen

# Fast shutdown, then immediate shutdown, then by force; each with its patience.
STOPPING = ((signal.SIGINT, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 5))
POLL_SECONDS = 0.02
HOPELESS_STARTS = 3
LONGEST_PAUSE_SECONDS = 5.0


class SupervisedServer:
    """Starts the server, or adopts one whose watchdog was killed."""

    def __init__(self, orders: WatchOrders, account: Account) -> None:
        self._orders = orders
        self._layout = orders.layout
        self._account = account
        self._log = LogFile(self._layout.log)
        self._child: Popen[bytes] | None = None
        self._failures = 0
        self._retry_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the server takes connections."""
        postmaster = read_postmaster(self._layout.data)
        return postmaster is not None and postmaster.accepts

    def keep_running(self) -> None:
        """Start the server if no process of it is left; raise once it is clear that it cannot start."""
        self._log.rotate()
        if self.is_ready:
            self._failures = 0
            return
        if self._child and self._child.poll() is not None:
            self._note_exit()
        if self._child is None and time.monotonic() >= self._retry_at:
            self._start()

    def _note_exit(self) -> None:
        self._child = None
        self._failures += 1
        if self._failures >= HOPELESS_STARTS:
            raise EmbeddedServerError(f"PostgreSQL does not start; {self._layout.log} ends with:\n{self._log.tail()}")
        self._retry_at = time.monotonic() + min(0.1 * 2**self._failures, LONGEST_PAUSE_SECONDS)

    def _start(self) -> None:
        alive = try_lock(self._layout.alive)
        if alive is None:
            return  # an adopted server, or backends of a killed one that have not noticed yet
        try:
            place = choose_place(self._layout, self._account)
            self._child = spawn_postgres(self._orders, self._account, place, alive)
        finally:
            alive.close()

    def stop(self) -> None:
        """Stop the server and wait until its last process is gone."""
        for signal_number, patience_seconds in STOPPING:
            self._send(signal_number)
            if self._is_gone_within(patience_seconds):
                break
        if place := read_place(self._layout):
            shutil.rmtree(place.socket_folder, ignore_errors=True)

    def _send(self, signal_number: signal.Signals) -> None:
        if self._child:
            self._child.send_signal(signal_number)
            return
        postmaster = read_postmaster(self._layout.data)
        if postmaster and postmaster.is_of(self._layout.data):
            postmaster.send(signal_number)

    def _is_gone_within(self, seconds: float) -> bool:
        for _ in Deadline.after(seconds).ticks(POLL_SECONDS):
            if (self._child is None or self._child.poll() is not None) and not is_locked(self._layout.alive):
                return True
        return False
