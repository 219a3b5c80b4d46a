"""Threads for blocking handlers: kept for the next job, replaced when they do not come back, never waited for."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from typing import TYPE_CHECKING, Any

from ferryman.worker.running.forks import generation, leave_if_forked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _End: TypeAlias = tuple[Any, BaseException | None]
    _Order: TypeAlias = tuple[contextvars.Context, Callable[[], Any], asyncio.Future[_End]]


class Threads:
    """Runs each call in a thread that no other call uses at that time.

    A pool with a fixed number of threads would not do: a call that continues after its timeout would keep a thread from
    others, and the end of the program would wait for it. How many calls run at once is for the caller to limit.
    """

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._is_closed = False

    async def run(self, call: Callable[[], Any]) -> Any:
        """Call a blocking function in a thread, and return its result.

        If this is cancelled, the function still runs to its end, and its result is dropped.
        """
        thread = self._idle.pop() if self._idle else _Thread(self._came_back)
        ended: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        thread.orders.put((contextvars.copy_context(), call, ended))
        # A future refuses some exceptions, such as StopIteration. So they are passed as values.
        result, error = await ended
        if error is None:
            return result
        try:
            raise error
        finally:
            del error, ended  # else it would hold itself, and all that its handler had, until a garbage collection

    def close(self) -> None:
        """End all threads: idle ones now, busy ones after their call."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().orders.put(None)

    def _came_back(self, thread: _Thread, ended: asyncio.Future[_End], end: _End) -> None:
        if self._is_closed:
            thread.orders.put(None)
        else:
            self._idle.append(thread)
        if not ended.done():
            ended.set_result(end)


class _Thread:
    """One thread, which takes its orders one by one until it gets None."""

    def __init__(self, came_back: Callable[[_Thread, asyncio.Future[_End], _End], None]) -> None:
        self.orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._came_back = came_back
        self._generation = generation()
        threading.Thread(target=self._work, name="ferryman", daemon=True).start()

    def _work(self) -> None:
        while (order := self.orders.get()) is not None:
            context, call, ended = order
            end = context.run(_end_of, call)
            leave_if_forked(self._generation, end[1])
            try:
                ended.get_loop().call_soon_threadsafe(self._came_back, self, ended, end)
            except RuntimeError:  # the loop is gone, and with it all callers
                return
            del order, context, call, ended, end


def _end_of(call: Callable[[], Any]) -> _End:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - raised again by `run`
        return None, error
