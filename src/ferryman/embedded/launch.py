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


def launch_watchdog(orders: WatchOrders, deadline: Deadline) -> None:
    """Start a watchdog that inherits its lock from us; return when the server is ready, raise if it will not be."""
    log = LogFile(orders.layout.log)
    with log.append() as errors:
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
        answer = _read_answer(process.stdout, deadline)
    if answer != READY:
        raise EmbeddedServerError(answer.decode(errors="replace") or _silence(log))


def _read_answer(pipe: IO[bytes] | None, deadline: Deadline) -> bytes:
    if pipe is None:
        return b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        is_answered = selector.select(deadline.remaining_seconds)
    return os.read(pipe.fileno(), 65536) if is_answered else b""


def _silence(log: LogFile) -> str:
    return f"PostgreSQL did not become ready; {log.path} ends with:\n{log.tail()}"
