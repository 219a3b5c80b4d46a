"""Lets the processes of one supervisor write to the same pipe, one line after the other.

The kernel keeps only writes of up to 4,096 bytes whole; longer ones of several processes may be mixed.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_WAIT_SECONDS = 0.2
"""A process that stands still in the midst of a line must not stop the others: they write without their turn then."""
_PAUSE_SECONDS = 0.0005


class Turns:
    """A lock that processes share by inheriting the descriptor; it ends with the process that holds it.

    The threads of one process are not kept apart: a logging handler does that itself.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def new(cls) -> Turns:
        """A lock that nobody else has."""
        if sys.platform == "linux":
            return cls(os.memfd_create("ferryman-log"))  # containers may have no place to write to
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    @classmethod
    def inherited(cls, descriptor: int) -> Turns:
        """The lock of the process that started this one."""
        os.set_inheritable(descriptor, False)
        return cls(descriptor)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the others, for a moment at most."""
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while not (is_ours := self._take()) and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        try:
            yield
        finally:
            if is_ours:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def _take(self) -> bool:
        # A record lock belongs to a process. One of flock would belong to the open file, which all of them share.
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
