"""Starts a watchdog and waits for its answer."""

import os
import selectors
import subprocess
import sys
from typing import IO

from ferryman.embedded import detached
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.logfile import LogFile
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.programs import bare_environment
from ferryman.embedded.watchdog import READY
from ferryman.errors import EmbeddedServerError

TRIES = 3


def launch_watchdog(orders: WatchOrders, deadline: Deadline) -> None:
    """Start a watchdog that inherits its lock from us; return when the server is ready, raise if it will not be."""
    for _ in range(TRIES):
        answer = _start_and_listen(orders, deadline)
        if answer == READY:
            return
        if answer:
            raise EmbeddedServerError(answer.decode(errors="replace"))
        # It was killed before it could say a word.
    log = LogFile(orders.layout.log)
    raise EmbeddedServerError(f"PostgreSQL did not become ready; {log.path} ends with:\n{log.tail()}")


def _start_and_listen(orders: WatchOrders, deadline: Deadline) -> bytes:
    with LogFile(orders.layout.log).append() as errors:
        process = subprocess.Popen(  # noqa: S603 - our own script
            # Isolated and without site-packages: nothing that is installed can get in the way.
            [sys.executable, "-I", "-S", detached.__file__, orders.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=bare_environment(),
            pass_fds=(orders.lock,),
            start_new_session=True,
        )
    with process:
        return _read_answer(process.stdout, deadline)


def _read_answer(pipe: IO[bytes] | None, deadline: Deadline) -> bytes:
    if pipe is None:
        return b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if selector.select(deadline.remaining_seconds):
            return os.read(pipe.fileno(), 65536)
    return b"PostgreSQL takes too long to become ready; its log may say why"
