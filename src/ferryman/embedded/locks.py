"""Locks on files, held by the kernel.

A lock belongs to an open file, not to a process id: it ends with the last process that has that file open, however
that process ends. So a killed program can never leave a lock behind, and a lock can be handed to a child.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ferryman.embedded.deadline import Deadline
from ferryman.errors import EmbeddedServerError

if sys.platform != "win32":
    # The package must import everywhere; EmbeddedPostgres.start() is what refuses on Windows.
    import fcntl

RETRY_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock that this process holds; a child that inherits the descriptor holds it as well."""

    descriptor: int

    def close(self) -> None:
        """Let go. Children that inherited the descriptor keep holding."""
        # Not LOCK_UN: that would take the lock away from every process that shares the open file.
        os.close(self.descriptor)


def open_lock(path: Path, *, create: bool = True) -> int:
    """Open a lock file without locking it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags | os.O_CREAT if create else flags, 0o600)


def take(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file if nobody is in the way."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Unlock a file that is open in this process only."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock(path: Path, *, shared: bool = False) -> FileLock | None:
    """Take the lock if nobody is in the way."""
    descriptor = open_lock(path)
    try:
        is_taken = take(descriptor, shared=shared)
    except BaseException:
        os.close(descriptor)
        raise
    if is_taken:
        return FileLock(descriptor)
    os.close(descriptor)
    return None


def wait_for_lock(path: Path, deadline: Deadline, *, shared: bool = False) -> FileLock:
    """Take the lock as soon as it is free."""
    for _ in deadline.ticks(RETRY_SECONDS):
        if lock := try_lock(path, shared=shared):
            return lock
    raise EmbeddedServerError(f"{path} is still locked by another process that starts or stops the server")


@contextmanager
def locked(path: Path, deadline: Deadline) -> Iterator[FileLock]:
    """Hold the lock, alone, for the length of a block."""
    lock = wait_for_lock(path, deadline)
    try:
        yield lock
    finally:
        lock.close()


def is_locked(path: Path) -> bool:
    """Whether any process holds the lock. Nothing is created: the folder may be about to be removed."""
    try:
        descriptor = open_lock(path, create=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not take(descriptor)
    finally:
        os.close(descriptor)
