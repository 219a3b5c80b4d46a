"""Processes, looked at from the outside."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.waiting import until


def is_running(pid: int) -> bool:
    """It exists, and is not just waiting to be buried by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    """Wait until the process is gone."""
    await until(lambda: not is_running(pid), f"the end of process {pid}")


def note_pid(note: str | Path, pid: int | None = None) -> None:
    """Write a pid in one step: a reader finds the whole of it or nothing."""
    draft = Path(f"{note}.draft")
    draft.write_text(str(os.getpid() if pid is None else pid))
    draft.rename(note)


async def noted_pid(note: Path) -> int:
    """Wait for a task to say that it runs, and in which process."""
    await until(note.exists, f"{note.name}: a task that begins")
    return _number_in(note)


def _number_in(note: Path) -> int:
    return int(note.read_text())
