"""Ends a child process when its parent process ends, even by SIGKILL."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_PR_SET_PDEATHSIG = 1
_ORPHANED = 70


def die_with_parent(channel: socket.socket, parent_pid: int) -> None:
    """End this process when its parent ends.

    The channel to the parent is closed then, too, but a busy child does not read it.
    """
    if not _ask_the_kernel():
        threading.Thread(target=end_at_hangup, args=(channel,), name="ferryman-lifeline", daemon=True).start()
    if os.getppid() != parent_pid:  # it ended before the kernel was asked
        os._exit(_ORPHANED)


def end_at_hangup(channel: socket.socket) -> None:
    """Wait until the other side of the channel is closed in both directions, then end this process."""
    poller = select.poll()
    poller.register(channel, 0)  # a hangup is always reported
    poller.poll()
    os._exit(_ORPHANED)


def _ask_the_kernel() -> bool:
    """Have Linux kill this process when its parent ends. Returns False on other systems.

    A thread would do too, but code that holds the interpreter's lock keeps a thread from running.
    """
    if sys.platform != "linux":
        return False
    arguments = (ctypes.c_ulong(value) for value in (signal.SIGKILL, 0, 0, 0))
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *arguments) == 0)
