"""Locks on files, held by the kernel, and deadlines for waiting on them.

A lock belongs to an open file, not to a process id. It ends when the last process that has the file open ends,
however it ends. So a killed program never leaves a lock behind, and a child process can inherit a lock.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ferryman.errors import EmbeddedServerError

if sys.platform != "win32":
    # The package must import everywhere; EmbeddedPostgres.start() is what refuses on Windows.
    import fcntl

RETRY_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time limit: a moment of the monotonic clock after which waiting ends."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline that lies `seconds` ahead."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """The time that is left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def ticks(self, every_seconds: float) -> Iterator[None]:
        """Yield at once, then at intervals, and end once the deadline has passed."""
        yield
        while remaining := self.remaining_seconds:
            time.sleep(min(every_seconds, remaining))
            yield


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock that this process holds. A child process that inherits the descriptor holds it as well."""

    descriptor: int

    def close(self) -> None:
        """Release the lock. Child processes that inherited the descriptor keep it."""
        # Not LOCK_UN: that would release the lock of every process that shares the open file.
        os.close(self.descriptor)


def open_lock(path: Path, *, create: bool = True) -> int:
    """Open a lock file without locking it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags | os.O_CREAT if create else flags, 0o600)


def acquire(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file. Returns False at once if another process holds a conflicting lock."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Unlock a file that is open in this process only."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock(path: Path, *, shared: bool = False) -> FileLock | None:
    """Lock a file. Returns None at once if another process holds a conflicting lock."""
    descriptor = open_lock(path)
    try:
        is_acquired = acquire(descriptor, shared=shared)
    except BaseException:
        os.close(descriptor)
        raise
    if is_acquired:
        return FileLock(descriptor)
    os.close(descriptor)
    return None


def wait_for_lock(path: Path, deadline: Deadline, *, shared: bool = False) -> FileLock:
    """Lock a file as soon as it is free. Raises `EmbeddedServerError` at the deadline."""
    for _ in deadline.ticks(RETRY_SECONDS):
        if lock := try_lock(path, shared=shared):
            return lock
    raise EmbeddedServerError(
        f"{path} is still locked by another process that starts or stops the server, so this one did nothing. Read "
        f"server.log beside it, or try again later."
    )


@contextmanager
def locked(path: Path, deadline: Deadline) -> Iterator[FileLock]:
    """Hold the exclusive lock of a file for the length of a block."""
    lock = wait_for_lock(path, deadline)
    try:
        yield lock
    finally:
        lock.close()


def is_locked(path: Path) -> bool:
    """True if any process holds a lock on the file. Does not create the file, whose folder may soon be gone."""
    try:
        descriptor = open_lock(path, create=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not acquire(descriptor)
    finally:
        os.close(descriptor)
