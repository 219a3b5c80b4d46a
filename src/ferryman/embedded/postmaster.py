"""What PostgreSQL tells about itself in its pid file, and whether that is still true."""

import socket
from dataclasses import dataclass
from pathlib import Path

from ferryman.embedded.programs import run_program

LINES = 8
PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, or the last words of one that was killed."""

    pid: int
    port: int
    socket_folder: Path
    is_ready: bool

    @property
    def accepts(self) -> bool:
        """Whether a new connection is taken at the socket."""
        return self.is_ready and _listens(socket.AF_UNIX, str(self._socket))

    @property
    def has_socket(self) -> bool:
        """False if the socket, or its folder, certainly is not there any more."""
        try:
            self._socket.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            pass
        return True

    def accepts_at_port(self, data: Path) -> bool:
        """Whether a new connection is taken by TCP, and by this server: anybody may listen at a port."""
        return self.is_ready and self.is_alive(data) and _listens(socket.AF_INET, ("127.0.0.1", self.port))

    @property
    def _socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{self.port}"

    def is_alive(self, data: Path) -> bool:
        """Whether the process of that id is a server of this data, and not one that was given the id since."""
        return f" -D {data} " in _command_line(self.pid)


def read_postmaster(data: Path) -> Postmaster | None:
    """Read the pid file; None when there is none, or while it is being written."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid, _, _, port, socket_folder, _, _, status = (lines + [""] * LINES)[:LINES]
        return Postmaster(int(pid), int(port), Path(socket_folder), status.strip() == "ready")
    except (OSError, ValueError):
        return None


def _listens(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _command_line(pid: int) -> str:
    # Of all that /proc tells, this is what root in a container may still read of another account's process.
    if not (PROCESSES / "self").exists():
        return run_program(["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]).stdout  # macOS
    try:
        return (PROCESSES / str(pid) / "cmdline").read_text(errors="surrogateescape").replace("\0", " ")
    except OSError:
        return ""
