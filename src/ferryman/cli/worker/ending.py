"""The end of a worker process: as Python ends, unless something would keep it from ending."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import logging
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS_FOR_IDLE_THREADS = 0.2
SECONDS_FOR_EXIT_FUNCTIONS = 5.0


def still_running(loop: asyncio.AbstractEventLoop) -> list[str]:
    """What Python would wait for at exit, for as long as it takes: the names of threads and asyncio tasks.

    An idle thread of a pool is not among them: Python ends it.
    """
    until = time.monotonic() + SECONDS_FOR_IDLE_THREADS
    busy = [thread for thread in _others() if not _is_idle(thread)]
    for thread in busy:
        thread.join(max(0.0, until - time.monotonic()))
    threads = [f"thread {thread.name!r}" for thread in busy if thread.is_alive() and not _is_idle(thread)]
    return [*threads, *(f"asyncio task {task.get_name()!r}" for task in asyncio.all_tasks(loop))]


def leave(code: int) -> NoReturn:
    """End this process now, whatever threads still run in it."""
    with suppress(Exception):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def leave_after_exit_functions(code: int) -> NoReturn:
    """The same, but what was registered with `atexit` has a moment: libraries write there what they have gathered."""
    # In a thread, because one of them may wait for what still runs.
    running = threading.Thread(target=atexit._run_exitfuncs, name="atexit", daemon=True)  # noqa: SLF001
    running.start()
    running.join(SECONDS_FOR_EXIT_FUNCTIONS)
    leave(code)


def _others() -> Iterable[threading.Thread]:
    return [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]


def _is_idle(thread: threading.Thread) -> bool:
    """True if it is a thread of a `ThreadPoolExecutor` that waits for something to do."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented, for purposes like this
    return frame is not None and frame.f_code is concurrent.futures.thread._worker.__code__  # noqa: SLF001
