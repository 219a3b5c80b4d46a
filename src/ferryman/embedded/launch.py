"""Starts the watchdog process of a private server, and waits until it reports that the server is ready."""

import os
import selectors
import subprocess
import sys
from typing import IO

from ferryman.embedded import detached
from ferryman.embedded.locks import Deadline
from ferryman.embedded.paths import WatchdogOptions
from ferryman.embedded.programs import LogFile, bare_environment
from ferryman.embedded.watchdog import READY
from ferryman.errors import EmbeddedServerError

TRIES = 3


def launch_watchdog(options: WatchdogOptions, deadline: Deadline) -> None:
    """Start the watchdog process of a server, and wait until the server is ready. It inherits the lock in `options`.

    Raises `EmbeddedServerError` with the reason if the server cannot be started.
    """
    for _ in range(TRIES):
        answer = _start_and_listen(options, deadline)
        if answer == READY:
            return
        if answer:
            raise EmbeddedServerError(answer.decode(errors="replace"))
        # The watchdog was killed before it could answer.
    log = LogFile(options.files.log)
    raise EmbeddedServerError(
        f"PostgreSQL did not become ready: its watchdog ended {TRIES} times before it could report. Remove the cause, "
        f"then start the server again. {log.path} ends with:\n{log.tail()}"
    )


def _start_and_listen(options: WatchdogOptions, deadline: Deadline) -> bytes:
    with LogFile(options.files.log).append() as errors:
        process = subprocess.Popen(  # noqa: S603 - our own script
            # Isolated and without site-packages: nothing that is installed can interfere.
            [sys.executable, "-I", "-S", detached.__file__, options.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=bare_environment(),
            pass_fds=(options.lock,),
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
    return b"PostgreSQL did not become ready in time. Read the end of server.log, then start the server again."
