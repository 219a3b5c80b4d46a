"""Handles the signals that ask a worker process or a supervisor to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferryman.cli.early_signals import STOP_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def handled_signals() -> list[signal.Signals]:
    """Return the stop signals but for those that were ignored when the process was started, as under nohup."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def handling(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `handle` on the event loop at each stop signal. After the block stop signals are ignored: the process exits.

    The loop's own signal handlers are not used: while the loop removes one, the signal kills for a moment, and an
    orderly end would look like a crash.
    """
    loop, numbers = asyncio.get_running_loop(), handled_signals()
    with _waking(loop):
        for each in numbers:
            signal.signal(each, lambda number, _: loop.call_soon_threadsafe(handle, signal.Signals(number)))
        try:
            yield
        finally:
            for each in numbers:
                signal.signal(each, signal.SIG_IGN)  # Python would drop a function while it exits


@contextmanager
def _waking(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wake the loop at each signal: Python's handlers run in the loop's thread, but another may receive the signal."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, lambda: ours.recv(4096))
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
