"""What PostgreSQL tells about itself in its pid file."""

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ferryman.embedded.programs import run_program


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, or the last words of one that was killed."""

    pid: int
    port: int
    socket_folder: str
    status: str

    @property
    def accepts(self) -> bool:
        """Whether a new connection would be served."""
        return self.status == "ready" and _listens(Path(self.socket_folder) / f".s.PGSQL.{self.port}")

    def is_of(self, data: Path) -> bool:
        """Whether the process of that id is a server of this data, and not one that was given its id since."""
        return str(data) in _command_line(self.pid)

    def send(self, signal_number: signal.Signals) -> None:
        """Signal the process; that it is gone already is fine."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal_number)


def read_postmaster(data: Path) -> Postmaster | None:
    """Read the pid file; None when there is none, or while it is being written."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid, _, _, port, socket_folder, _, _, status = (lines + [""] * 8)[:8]
        return Postmaster(int(pid), int(port), socket_folder, status.strip())
    except (OSError, ValueError):
        return None


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        # macOS and the BSDs have no /proc.
        return run_program(["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]).stdout.split()
