"""The signals that ask us to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""Without SIGPIPE: any handler that writes to a socket whose other side is gone raises it."""


def heeded_signals() -> list[signal.Signals]:
    """The signals that stop us, but for those that whoever started us wants ignored, as nohup does."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def heeding(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Hear the signals on the event loop. After the block they mean nothing any more: we are about to end anyway."""
    loop, heard = asyncio.get_running_loop(), heeded_signals()
    for number in heard:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        # Held back meanwhile: without a handler they would kill, and a clean end would look like a crash.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
        for number in heard:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)  # a function would be dropped while Python ends
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
