"""The server process of PostgreSQL: reads its pid file, keeps it running, and stops it."""

import shutil
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.embedded.account import Account
from ferryman.embedded.locks import Deadline, is_locked, try_lock
from ferryman.embedded.paths import WatchdogOptions, choose_place, read_place
from ferryman.embedded.programs import PROCESSES, LogFile, run_program, start_postgres
from ferryman.errors import EmbeddedServerError

if TYPE_CHECKING:
    from subprocess import Popen

PID_FILE_LINES = 8
# Fast shutdown, then immediate shutdown, then by force; each with the seconds that it may take.
STOPPING = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))
POLL_SECONDS = 0.02
HOPELESS_STARTS = 3
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A PostgreSQL server process, as its pid file describes it. It may have been killed since."""

    pid: int
    port: int
    socket_folder: Path
    is_ready: bool

    @property
    def accepts(self) -> bool:
        """True if the server accepts a new connection at its socket."""
        return self.is_ready and _accepts(socket.AF_UNIX, str(self._socket))

    @property
    def has_socket(self) -> bool:
        """False if the socket or its folder has certainly been removed."""
        try:
            self._socket.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            pass
        return True

    def accepts_at_port(self, data: Path) -> bool:
        """True if this server, and not another program at its port, accepts a new connection by TCP."""
        return self.is_ready and self.is_alive(data) and _accepts(socket.AF_INET, ("127.0.0.1", self.port))

    @property
    def _socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{self.port}"

    def is_alive(self, data: Path) -> bool:
        """True if the server still runs.

        Its process id may have been given to another program since, so the process must name this data folder.
        """
        return f" -D {data} " in _command_line(self.pid)


def read_postmaster(data: Path) -> Postmaster | None:
    """Read the pid file of a server. Returns None if there is none, or while PostgreSQL writes it."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid, _, _, port, socket_folder, _, _, status = (lines + [""] * PID_FILE_LINES)[:PID_FILE_LINES]
        return Postmaster(int(pid), int(port), Path(socket_folder), status.strip() == "ready")
    except (OSError, ValueError):
        return None


class SupervisedServer:
    """A PostgreSQL server that a watchdog keeps running. An earlier watchdog, since killed, may have started it."""

    def __init__(self, options: WatchdogOptions, account: Account) -> None:
        self._options = options
        self._files = options.files
        self._account = account
        self._log = LogFile(self._files.log)
        self._place = read_place(self._files)
        self._postmaster: Postmaster | None = None
        self._child: Popen[bytes] | None = None
        self._failed_starts = 0
        self._start_at = 0.0
        self._was_ready = False
        self._had_socket = False

    @property
    def is_ready(self) -> bool:
        """True if the server accepted connections at the last check."""
        return self._postmaster is not None and self._postmaster.is_ready

    def keep_running(self) -> None:
        """Check the server, and start it if none of its processes is left.

        Raises `EmbeddedServerError` if a server that was never ready cannot be started. A server that was ready has
        users, and the obstacle may pass, such as a full disk: it is started again, after pauses that grow.
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

    def stop(self) -> None:
        """Stop the server, and wait until its last process has ended."""
        for signal_number, patience_seconds in STOPPING:
            self._look()
            self._send(signal_number)
            if self._is_gone_within(patience_seconds):
                break
        self._remove_sockets()

    def _look(self) -> None:
        # The pid file is gone if the folder was removed; the server may still run.
        known = (read_postmaster(self._files.data), self._postmaster)
        self._postmaster = next((each for each in known if each and each.is_alive(self._files.data)), None)

    def _reap(self) -> None:
        if self._child and self._child.poll() is not None:
            self._child = None
            self._count_failure("PostgreSQL has ended")

    def _count_failure(self, what: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= HOPELESS_STARTS and not self._was_ready:
            self._remove_sockets()
            raise EmbeddedServerError(
                f"PostgreSQL does not start; {self._log.path} ends with:\n{self._log.tail()}\n"
                f"Remove the cause, then start the server again."
            )
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failed_starts - 1, 10))
        self._start_at = time.monotonic() + pause
        if self._was_ready:
            self._write_log(f"{what}; starting it again in {pause:g} s")

    def _try_start(self) -> None:
        try:
            self._start()
        except OSError as problem:
            if not self._was_ready:
                raise
            self._count_failure(f"PostgreSQL could not be started ({problem})")

    def _start(self) -> None:
        alive = try_lock(self._files.alive)
        if alive is None:
            return  # backends of a killed server have not noticed yet: they still write to the data
        try:
            self._place = choose_place(self._files, self._account)
            self._child = start_postgres(self._options, self._account, self._place, alive)
        finally:
            alive.close()

    def _replace_lost_socket(self) -> None:
        """Restart the server if its socket file was removed, as when /tmp is cleaned: only a start creates one."""
        if self._postmaster is None:
            return
        has_socket = self._postmaster.has_socket
        if self._had_socket and not has_socket:
            self._write_log("the socket was removed; restarting PostgreSQL to make it again")
            self._send(STOPPING[0][0])
        self._had_socket = has_socket

    def _write_log(self, message: str) -> None:
        with suppress(OSError):  # the disk may be full
            self._log.write(message)

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
        if self._postmaster and self._postmaster.is_alive(self._files.data):
            return False
        try:
            return not is_locked(self._files.alive)  # backends can outlive their server
        except OSError:
            return False  # not known


def _accepts(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _command_line(pid: int) -> str:
    # Of all that /proc shows, this is what root in a container may still read of another account's process.
    if not (PROCESSES / "self").exists():
        return run_program(["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]).stdout  # macOS
    try:
        return (PROCESSES / str(pid) / "cmdline").read_text(errors="surrogateescape").replace("\0", " ")
    except OSError:
        return ""
