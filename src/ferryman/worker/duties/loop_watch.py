"""Names the handler that blocks the event loop, while it does so.

A blocking call in an async handler stops every other job of the worker, and nothing else shows which one it was. A
thread asks the loop to answer. If no answer comes, it reads the stack of the loop's thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import ferryman

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from ferryman.worker.running.slots import Slots

logger = logging.getLogger("ferryman.worker")


class LoopWatch:
    """Watches the loop that it was made in, for as long as its block lasts.

    patience: how many seconds a handler may block it
    slots: the jobs that run in it
    """

    def __init__(self, patience: float, slots: Slots) -> None:
        self._patience = patience
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ferryman loop watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not joined: the thread may be waiting for this very loop, and it is a daemon.
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._patience):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            asked = time.monotonic()
            if answered.wait(self._patience) or self._ended.is_set():
                continue
            told = self._tell()
            answered.wait()
            if told:
                logger.warning(
                    "the event loop is no longer blocked, after %.1f s; the other jobs of this worker continue",
                    time.monotonic() - asked,
                    extra={"event": "loop_unblocked"},
                )

    def _tell(self) -> bool:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the only way to see another thread
        task = asyncio.current_task(self._loop)
        if frame is None or task is None:
            return False
        place = _users_frame(frame) or frame
        logger.warning(
            "the event loop has been blocked for %.1f s by %s, at %s:%d in %s; no other job of this worker can "
            "continue. Make the task a plain `def`, which runs in a thread, or move the blocking call into "
            "asyncio.to_thread",
            self._patience,
            self._slots.describe(task) or task.get_name(),
            place.f_code.co_filename,
            place.f_lineno,
            place.f_code.co_name,
            extra={"event": "loop_blocked"},
        )
        return True


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost place in code that is neither Python's nor a library's nor ours."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_not_the_users()):
            return frame
        frame = frame.f_back
    return None


@functools.cache
def _not_the_users() -> tuple[str, ...]:
    """The beginnings of the file names of such code."""
    places = [Path(ferryman.__file__).parent]
    places += [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return ("<frozen", *(str(place.resolve()) for place in places))
