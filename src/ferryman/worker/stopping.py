"""How a worker is asked to shut down: by a signal or a call, once or twice.

`on_signals` is for a worker that a program runs itself. Under `ferryman worker` the signals come from
`cli/worker/stop_signals.py`, and reach the worker through `Worker.request_shutdown`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator

    from ferryman.errors import SchemaError
    from ferryman.worker.alarm import Alarm

logger = logging.getLogger("ferryman.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""Without SIGPIPE: with a handler installed, any job that writes to a closed socket would end the worker."""
SECONDS_TO_FLUSH = 30.0
"""How long the last outcomes may take to be written and reported, unless a second request comes."""
SECONDS_THAT_A_STORM_LASTS = 1.0
"""Signals within this time of the first count as one: terminals and supervisors like to send several."""


class Stopping:
    """The shutdown of a worker: begun by the first request, hurried by a request that comes clearly later."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.hurried = asyncio.Event()
        self.by_signal = False
        self.retired_because: str | None = None
        """Why the worker takes no more jobs, if it was not asked to stop."""
        self._begun_at: float | None = None
        self._limit: asyncio.Timeout | None = None
        self._limit_seconds = 0.0
        self._alarms: list[Alarm] = []
        self.problem: SchemaError | None = None
        """The problem because of which the worker cannot continue, if there is one."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._task = asyncio.current_task()
        self._cancelled_before = 0 if self._task is None else self._task.cancelling()

    @property
    def was_cancelled(self) -> bool:
        """True if the asyncio task that runs the worker was cancelled."""
        return self._task is not None and self._task.cancelling() > self._cancelled_before

    def request(self, *, by_signal: bool = False) -> None:
        """Request shutdown. A second request skips the grace period. Thread-safe, also after the loop is closed."""
        self.by_signal = self.by_signal or by_signal
        if threading.get_ident() == self._thread:
            self._requested()
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._requested)

    def retire(self, reason: str) -> None:
        """Shut down when all running jobs have ended, without a grace period, unless a request follows."""
        self.retired_because = reason
        self.begun.set()
        self._ring()

    def give_up(self, problem: SchemaError) -> None:
        """Shut down because of a problem, which is raised after everything that ran is settled."""
        self.problem = problem
        self.request()

    def wakes(self, alarm: Alarm) -> None:
        """Wake this alarm at each request."""
        self._alarms.append(alarm)

    def _ring(self) -> None:
        for alarm in self._alarms:
            alarm.ring()

    def _requested(self) -> None:
        now = self._loop.time()
        if self._begun_at is None:
            self._begun_at = now
            self.begun.set()
            self._end_limited_at(now + self._limit_seconds)
        elif now - self._begun_at >= SECONDS_THAT_A_STORM_LASTS:
            self.hurried.set()
            self._end_limited_at(now)
        self._ring()

    @property
    def seconds_since(self) -> float:
        """Seconds since the first request; 0 before it."""
        return 0.0 if self._begun_at is None else self._loop.time() - self._begun_at

    async def pause(self, seconds: float) -> None:
        """Wait for these seconds, or until shutdown begins."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.begun.wait()

    async def has_done(self, task: asyncio.Task[object]) -> bool:
        """Wait for a task, and cancel it if shutdown begins first. True if the task ended by itself."""
        begun = asyncio.ensure_future(self.begun.wait())
        try:
            await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
            return task.done()
        finally:  # also when this is cancelled
            begun.cancel()
            task.cancel()

    async def wait_for(self, act: Coroutine[Any, Any, object], seconds: float, *, or_hurry: bool) -> None:
        """Wait for a coroutine for these seconds, with `or_hurry` only until a second request; then cancel it."""
        acting, hurried = asyncio.ensure_future(act), asyncio.ensure_future(self.hurried.wait())
        try:
            watched = [acting, hurried] if or_hurry else [acting]
            await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
            acting.cancel()

    @contextlib.asynccontextmanager
    async def limiting(self, seconds: float) -> AsyncIterator[None]:
        """Cancel the block when it lasts this long after the first request, or at a second request."""
        self._limit_seconds = seconds
        try:
            async with asyncio.timeout(None) as self._limit:
                yield
        except TimeoutError:
            if self._limit is None or not self._limit.expired():
                raise
        finally:
            self._limit = None

    def _end_limited_at(self, when: float) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(when)

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let the usual signals request shutdown, for as long as the block lasts."""
        loop = asyncio.get_running_loop()
        before = {}
        for number in SIGNALS:
            earlier = signal.getsignal(number)
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._signalled, number)
                before[number] = earlier
        try:
            yield
        finally:
            for number, earlier in before.items():
                loop.remove_signal_handler(number)
                # The loop would leave the system's default, which ends the process.
                if earlier is not None:
                    signal.signal(number, earlier)

    def _signalled(self, number: signal.Signals) -> None:
        if not self.begun.is_set():
            logger.info(
                "%s received; finishing running jobs",
                number.name,
                extra={"event": "signal_received", "signal": number.name},
            )
        self.request(by_signal=True)

    async def after(self, signal_to_stop: Awaitable[object]) -> None:
        """Request shutdown when this awaitable is done, also if it raises an error."""
        try:
            await signal_to_stop
        except Exception:
            logger.exception(
                "the awaitable of shutdown_signal raised an error; the worker shuts down, as if it had returned",
                extra={"event": "shutdown_signal_failed"},
            )
        self.request()
