"""How much memory a process uses."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int | None = None) -> int:
    """The memory that a process has in use, this one by default; 0 if that is unknown, or the process is gone."""
    number = os.getpid() if pid is None else pid
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{number}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    if Path("/proc/self/statm").exists():
        return 0
    # Where there is no /proc, as on macOS.
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["/bin/ps", "-o", "rss=", "-p", str(number)]
        return int(subprocess.run(command, capture_output=True, timeout=5, check=True).stdout) * 1024  # noqa: S603
    return 0


def shown(size: int) -> str:
    """A size for people."""
    return f"{size / 1024**2:,.0f} MiB"
