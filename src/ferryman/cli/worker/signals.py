"""The signals that ask us to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferryman.cli.beginning import STOP_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def heeded_signals() -> list[signal.Signals]:
    """The signals that stop us, but for those that whoever started us wants ignored, as nohup does."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def heeding(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Hear the signals on the event loop. After the block they mean nothing any more: we are about to end anyway.

    Not by the loop's own handlers: while it takes one away, the signal kills for a moment, and a clean end would look
    like a crash.
    """
    loop, heard = asyncio.get_running_loop(), heeded_signals()
    with _waking(loop):
        for number in heard:
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(handle, signal.Signals(number)))
        try:
            yield
        finally:
            for number in heard:
                signal.signal(number, signal.SIG_IGN)  # a function would be dropped while Python ends


@contextmanager
def _waking(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wake the loop when a signal comes: Python's handlers run in its thread, but others may take the signal."""
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
