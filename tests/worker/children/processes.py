"""Processes, looked at from the outside."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import until


def is_running(pid: int) -> bool:
    """It exists, and is not just waiting to be buried by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    """Wait until the process is gone."""
    await until(lambda: not is_running(pid), f"the end of process {pid}")


async def noted_pid(note: Path) -> int:
    """Wait for a task to say that it runs, and in which process."""
    await until(note.exists, f"{note.name}: a task that begins")
    return _number_in(note)


def _number_in(note: Path) -> int:
    return int(note.read_text())
