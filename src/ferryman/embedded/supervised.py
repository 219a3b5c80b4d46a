"""A PostgreSQL server under supervision: kept running, and stopped."""

import shutil
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ferryman.embedded.account import Account
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.locks import is_locked, try_lock
from ferryman.embedded.logfile import LogFile
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.place import choose_place, read_place
from ferryman.embedded.postmaster import Postmaster, read_postmaster
from ferryman.embedded.programs import run_program
from ferryman.embedded.spawn import spawn_postgres
from ferryman.errors import EmbeddedServerError

if TYPE_CHECKING:
    from subprocess import Popen

# Fast shutdown, then immediate shutdown, then by force; each with its patience.
STOPPING = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))
POLL_SECONDS = 0.02
HOPELESS_STARTS = 3
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0


class SupervisedServer:
    """Starts the server, or adopts one whose watchdog was killed."""

    def __init__(self, orders: WatchOrders, account: Account) -> None:
        self._orders = orders
        self._layout = orders.layout
        self._account = account
        self._log = LogFile(self._layout.log)
        self._place = read_place(self._layout)
        self._postmaster: Postmaster | None = None
        self._child: Popen[bytes] | None = None
        self._failed_starts = 0
        self._start_at = 0.0
        self._was_ready = False
        self._had_socket = False

    @property
    def is_ready(self) -> bool:
        """Whether the server took connections at the last look."""
        return self._postmaster is not None and self._postmaster.is_ready

    def keep_running(self) -> None:
        """Look, and start the server if no process of it is left.

        Raises if the server cannot be started at all. A server that was ready once has users, and what keeps it from
        starting may pass, such as a full disk: it is tried again, after ever longer pauses.
        """
        with suppress(OSError):
            self._log.rotate()
        self._look()
        self._reap()
        if self.is_ready:
            self._failed_starts = 0
            self._was_ready = True
            self._replace_lost_socket()
        elif self._postmaster is None and self._child is None and time.monotonic() >= self._start_at:
            self._try_start()

    def _look(self) -> None:
        # The pid file is gone if the folder was removed; the server may not be.
        known = (read_postmaster(self._layout.data), self._postmaster)
        self._postmaster = next((each for each in known if each and each.is_alive(self._layout.data)), None)

    def _reap(self) -> None:
        if self._child and self._child.poll() is not None:
            self._child = None
            self._count_failure("PostgreSQL has ended")

    def _count_failure(self, what: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= HOPELESS_STARTS and not self._was_ready:
            self._remove_sockets()
            raise EmbeddedServerError(f"PostgreSQL does not start; {self._log.path} ends with:\n{self._log.tail()}")
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failed_starts - 1, 10))
        self._start_at = time.monotonic() + pause
        if self._was_ready:
            self._say(f"{what}; starting it again in {pause:g} s")

    def _try_start(self) -> None:
        try:
            self._start()
        except OSError as problem:
            if not self._was_ready:
                raise
            self._count_failure(f"PostgreSQL could not be started ({problem})")

    def _start(self) -> None:
        alive = try_lock(self._layout.alive)
        if alive is None:
            return  # backends of a killed server have not noticed yet: they still write to the data
        try:
            self._place = choose_place(self._layout, self._account)
            self._child = spawn_postgres(self._orders, self._account, self._place, alive)
        finally:
            alive.close()

    def _replace_lost_socket(self) -> None:
        """Have the server started again if its socket is gone, as when /tmp was cleaned: it makes one only then."""
        if self._postmaster is None:
            return
        has_socket = self._postmaster.has_socket
        if self._had_socket and not has_socket:
            self._say("the socket was removed; restarting PostgreSQL, which then makes it again")
            self._send(STOPPING[0][0])
        self._had_socket = has_socket

    def _say(self, message: str) -> None:
        with suppress(OSError):  # the disk may be full
            self._log.say(message)

    def stop(self) -> None:
        """Stop the server and wait until its last process is gone."""
        for signal_number, patience_seconds in STOPPING:
            self._look()
            self._send(signal_number)
            if self._is_gone_within(patience_seconds):
                break
        self._remove_sockets()

    def _remove_sockets(self) -> None:
        if self._place:
            shutil.rmtree(self._place.socket_folder, ignore_errors=True)

    def _send(self, signal_number: signal.Signals) -> None:
        target = self._child if self._child and self._child.poll() is None else self._postmaster
        if target is None:
            return
        # As the server's account: we may be root, and the id may come from a file which that account can write.
        name = signal_number.name.removeprefix("SIG")
        run_program(["/bin/sh", "-c", 'kill -s "$0" "$1"', name, str(target.pid)], self._account)

    def _is_gone_within(self, seconds: float) -> bool:
        return any(self._is_gone() for _ in Deadline.after(seconds).ticks(POLL_SECONDS))

    def _is_gone(self) -> bool:
        if self._child and self._child.poll() is None:
            return False
        if self._postmaster and self._postmaster.is_alive(self._layout.data):
            return False
        try:
            return not is_locked(self._layout.alive)  # backends may outlive their server
        except OSError:
            return False  # not known
