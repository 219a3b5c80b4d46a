"""Signals to a child: whether it ends is its parent's decision."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIELDED = frozenset({signal.SIGINT, signal.SIGTERM})


class Terminated(SystemExit):
    """The parent wants this child to end; whatever the task has to tidy up is tidied up on the way."""


@contextmanager
def held_back() -> Iterator[None]:
    """Hold signals back while a child is started: it inherits that, and has time to learn what to do with them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SHIELDED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey_only_the_parent(channel: socket.socket) -> None:
    """Ignore the signals that stop a whole service at once: the worker gives its jobs time to finish.

    Ctrl-C and `systemctl stop` signal every process that they see. A SIGTERM counts only when the parent has closed its
    half of the channel before. Handlers, not SIG_IGN, which programs that a task starts would inherit.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _leave_if_told(channel))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SHIELDED)


def _leave_if_told(channel: socket.socket) -> None:
    try:
        is_told = channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        is_told = False
    except OSError:  # the task closed the channel under us, and the parent gave up on this child
        is_told = True
    if is_told:
        raise Terminated(128 + signal.SIGTERM)
