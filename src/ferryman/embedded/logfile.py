"""The log of a server that may run for months."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

LARGEST_BYTES = 8 * 1024 * 1024
TAIL_CHARACTERS = 1500


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that PostgreSQL appends to."""

    path: Path

    def append(self) -> IO[bytes]:
        """Open for more; statements may be quoted in it, so only the owner reads it."""
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")

    def say(self, message: str) -> None:
        """Add a line of our own."""
        with self.append() as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC [ferryman] {message}\n".encode())

    def rotate(self) -> None:
        """Move what was written to `.1` once there is too much of it."""
        if not self.path.exists() or self.path.stat().st_size <= LARGEST_BYTES:
            return
        # Copied and emptied, not renamed: a running server keeps writing to the file that it was started with. A
        # line written in between is lost, which a log of this kind can bear; so is all of it if the disk is full.
        with suppress(OSError):
            shutil.copyfile(self.path, self.path.with_suffix(".log.1"))
        with self.path.open("r+b") as file:
            file.truncate()

    def tail(self) -> str:
        """The last words."""
        if not self.path.exists():
            return "(nothing)"
        return self.path.read_text(errors="replace")[-TAIL_CHARACTERS:].strip()
