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
        """Whether a new connection is taken."""
        return self.is_ready and _listens(self.socket_folder / f".s.PGSQL.{self.port}")

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


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
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
