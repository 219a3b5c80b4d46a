"""Lets the processes of one supervisor write to the same pipe, one line after the other.

The kernel keeps only writes of up to 4,096 bytes whole; longer ones of several processes may be mixed.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LOOKS = 10_000
"""How often another process is looked at that has its turn and does not end it: for 5 s at least. It stands still in
the midst of a line, and must not stop the others. Looks at a full pipe do not count: nobody could write."""
PAUSE_SECONDS = 0.0005
_STDERR = 2


class Turns:
    """A lock that processes share by inheriting the descriptor; it ends with the process that holds it.

    The threads of one process are not kept apart: a logging handler does that itself.

    output: the descriptor that all of them write to
    """

    def __init__(self, descriptor: int, output: int = _STDERR) -> None:
        self.descriptor = descriptor
        self._output = select.poll()
        self._output.register(output, select.POLLOUT)
        self._was_in_vain = False

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
        """Wait until no other process writes; for one that stands still only once."""
        is_ours = self._take() or (not self._was_in_vain and self._wait())
        self._was_in_vain = not is_ours
        try:
            yield
        finally:
            if is_ours:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def _wait(self) -> bool:
        looks = 0
        while looks < MOST_LOOKS:
            time.sleep(PAUSE_SECONDS)
            if self._take():
                return True
            looks += len(self._output.poll(0))
        return False

    def _take(self) -> bool:
        # A record lock belongs to a process. One of flock would belong to the open file, which all of them share.
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
