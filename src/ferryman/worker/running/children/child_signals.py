"""Signals in a child: only its worker can end it."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIELDED = frozenset({signal.SIGINT, signal.SIGTERM})


class Terminated(SystemExit):
    """The worker ends this child. As an exception, it lets the task clean up."""


@contextmanager
def held_back() -> Iterator[None]:
    """Block signals while a child is started. It inherits the mask, until it has set its own handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SHIELDED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey_only_the_parent(channel: socket.socket) -> None:
    """Ignore the signals that stop a whole service at once: the worker gives its jobs time to finish.

    Ctrl-C and `systemctl stop` signal every process of a service. A SIGTERM ends this child only if the worker has
    closed its half of the channel before. The signals get handlers and not SIG_IGN, which programs that a task starts
    would inherit.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _exit_if_closed(channel))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SHIELDED)


def _exit_if_closed(channel: socket.socket) -> None:
    try:
        is_closed = channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        is_closed = False
    except OSError:  # the task closed the channel, and the worker gave up on this child
        is_closed = True
    if is_closed:
        raise Terminated(128 + signal.SIGTERM)
