"""A child does not outlive its worker, not even one that was killed."""

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
    """End this process when its parent is gone. The channel tells it too, but a busy child does not look there."""
    if not _ask_the_kernel():
        threading.Thread(target=end_at_hangup, args=(channel,), name="ferryman-lifeline", daemon=True).start()
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(_ORPHANED)


def end_at_hangup(channel: socket.socket) -> None:
    """End this process when the other side of the channel is closed altogether."""
    poller = select.poll()
    poller.register(channel, 0)  # a hangup is reported without being asked for
    poller.poll()
    os._exit(_ORPHANED)


def _ask_the_kernel() -> bool:
    """Linux only. A thread would do as well, but code that holds the interpreter's lock would keep it from running."""
    if sys.platform != "linux":
        return False
    arguments = (ctypes.c_ulong(value) for value in (signal.SIGKILL, 0, 0, 0))
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *arguments) == 0)
