"""The child processes of a worker: started when an order needs one, and kept a while for the next."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, Self

from ferryman.errors import ConfigurationError, PoolClosedError, WorkerCrashed
from ferryman.worker.memory import resident_bytes
from ferryman.worker.running.children.messages import (
    MAX_NOTE_BYTES,
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildSuccess,
    UnreadableError,
    decode_message,
)
from ferryman.worker.running.children.process import Child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ferryman.worker.running.children.messages import ChildNote, ChildResult
    from ferryman.worker.running.children.orders import ChildOrder


class LostBeforeStartError(Exception):
    """The worker lost the job, or may have lost it, before its order was sent. No child has seen the job."""


class ChildPool:
    """Runs orders in child processes, at most `size` at a time. Belongs to one event loop, and to its thread.

    size: the most children at one time; further orders wait
    idle_timeout: how long a child without an order is kept
    start_timeout: how long a child may take to start and to import the module of a task
    max_jobs: a child that has run this many orders is replaced; None for never
    max_memory: a child that uses more bytes after an order is replaced; None for never
    kill_grace: how long an interrupted task may clean up before its process is killed
    """

    def __init__(
        self,
        size: int,
        *,
        idle_timeout: timedelta = timedelta(minutes=1),
        start_timeout: timedelta = timedelta(minutes=1),
        kill_grace: timedelta = timedelta(seconds=2),
        max_jobs: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        if size < 1:
            raise ConfigurationError(f"a pool of child processes needs a size of at least 1; got {size}")
        self._slots = asyncio.Semaphore(size)
        self._idle_seconds = idle_timeout.total_seconds()
        self._start_timeout = start_timeout
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._grace_seconds = kill_grace.total_seconds()
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._busy: set[Child] = set()
        self._endings: set[asyncio.Task[int]] = set()
        self._none_busy = asyncio.Event()
        self._none_busy.set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # asyncio.timeout around the call would count the time that the order waits.
    async def run(
        self,
        order: ChildOrder,
        timeout: timedelta | None = None,  # noqa: ASYNC109
        *,
        on_note: Callable[[ChildNote], object] = lambda _: None,
        may_start: Callable[[], bool] = lambda: True,
    ) -> ChildResult:
        """Run a task in a child process, and return its result. After an error, no process still runs the task.

        on_note: called with each note of the child; its return value is the answer if the note is a question
        may_start: returns False if the job must not start; called when a child is ready, just before it gets the order

        Raises `TimeoutError` when the task runs longer than `timeout`, waiting and importing not counted;
        `WorkerCrashed` when its process ends; `PoolClosedError` when the pool is closed; `LostBeforeStartError` when
        the order must not start any more; `OSError` when no process can be started. A cancelled call ends the process.
        Other orders are not affected.
        """
        async with self._slots:
            if not may_start():
                raise LostBeforeStartError
            if self._idle:
                run = _Run(self._take(), order, on_note, may_start)
                try:
                    return await self._carry_out(run, timeout)
                except WorkerCrashed:
                    # The child may have died while it was idle, which is not this job's fault. A second crash is.
                    if run.has_begun:
                        raise
            return await self._carry_out(_Run(self._start(order), order, on_note, may_start), timeout)

    async def close(self, grace: timedelta = timedelta(0)) -> None:
        """Dismiss idle children at once, and end busy ones after `grace`. Returns when all have ended."""
        self._is_closed = True
        for child in [*self._idle]:
            self._dismiss(child)
        try:
            await _wait_at_most(self._none_busy, grace)
        finally:  # a cancelled call does not wait, but the children must end
            for child in self._busy:
                self._track(child.end(self._grace_seconds))
        await self._none_busy.wait()
        while self._endings:
            await asyncio.wait(self._endings)

    async def _carry_out(self, run: _Run, limit: timedelta | None) -> ChildResult:
        self._busy.add(run.child)
        self._none_busy.clear()
        try:
            result = await self._result_or_end(run, limit)
            run.child.orders_done += 1
            self._keep(run.child)
        finally:
            self._busy.discard(run.child)
            if not self._busy:
                self._none_busy.set()
        return result

    async def _result_or_end(self, run: _Run, limit: timedelta | None) -> ChildResult:
        try:
            return await run.result(self._start_timeout, limit)
        except (EOFError, ConnectionError):
            await self._raise_crash(run)
        except UnreadableError as error:
            await self._end(run.child)
            return ChildFailure.saying(f"{error}; its process was ended")
        except LostBeforeStartError:
            self._keep(run.child)  # the child has not seen the order
            raise
        except BaseException:
            await self._end(run.child)
            raise

    async def _raise_crash(self, run: _Run) -> NoReturn:
        was_ending = run.child.is_ending
        exit_code = await self._end(run.child)
        if was_ending:
            raise PoolClosedError(f"the worker stopped before {run.order} finished; its process was ended")
        raise WorkerCrashed.of(run.order, exit_code, has_begun=run.has_begun)

    async def _end(self, child: Child) -> int:
        # Shielded: a second cancellation lets the caller go, and the process ends all the same.
        return await asyncio.shield(self._track(child.end(self._grace_seconds)))

    def _take(self) -> Child:
        child, expiry = self._idle.popitem()  # the one that was used last, so that those not needed expire
        expiry.cancel()
        return child

    def _start(self, order: ChildOrder) -> Child:
        if self._is_closed:
            raise PoolClosedError(f"the worker is stopping, and {order} was not started")
        child = Child.start()
        child.exited.add_done_callback(lambda _: self._dismiss(child) if child in self._idle else None)
        return child

    def _keep(self, child: Child) -> None:
        expiry = asyncio.get_running_loop().call_later(self._idle_seconds, self._dismiss, child)
        self._idle[child] = expiry
        if self._is_closed or child.exited.done() or self._is_worn(child):
            self._dismiss(child)

    def _is_worn(self, child: Child) -> bool:
        """True if the child has run enough orders, or uses too much memory. The next order starts another child."""
        if self._max_jobs is not None and child.orders_done >= self._max_jobs:
            return True
        return self._max_memory is not None and resident_bytes(child.pid) > self._max_memory

    def _dismiss(self, child: Child) -> None:
        self._idle.pop(child).cancel()
        self._track(child.dismiss(self._grace_seconds))

    def _track(self, ending: asyncio.Task[int]) -> asyncio.Task[int]:
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending


class _Run:
    """One order in one child: sends the order, and waits for the result within the time limits.

    The time until the task starts has a limit of its own. If it counted as the task's time, a task whose module takes
    longer to import than the task may run would never finish: each new child would have to import the module again.
    """

    def __init__(
        self, child: Child, order: ChildOrder, on_note: Callable[[ChildNote], object], may_start: Callable[[], bool]
    ) -> None:
        self.child = child
        self.order = order
        self._on_note = on_note
        self._may_start = may_start
        self.has_begun = False

    async def result(self, start_limit: timedelta, limit: timedelta | None) -> ChildResult:
        """Carry out the order. Raises `TimeoutError`; `EOFError` or `ConnectionError` when the process ends.

        Raises `UnreadableError` when the child breaks the protocol, and its process must be ended then;
        `LostBeforeStartError` when the job must not start any more.
        """
        async with _at_most(start_limit, f"importing {self.order.place.module!r} to run {self.order} took"):
            await self.child.prepare()
            # The wait for a child may have been long, and the worker may have lost the job meanwhile.
            if not self._may_start():
                raise LostBeforeStartError
            await self.child.send_order(self.order)
            while message := await self._receive():
                await self._result_of(message)
        self.has_begun = True
        async with _at_most(limit, f"{self.order} ran"):
            while True:
                result = await self._result_of(await self._receive())
                if result is not None:
                    return result

    async def _receive(self) -> bytearray:
        try:
            # Around the task's value there are a few words of the child's, and an error text.
            return await self.child.receive(self.order.largest_answer + MAX_NOTE_BYTES)
        except UnreadableError as error:
            raise UnreadableError(f"{self.order} {error}") from None

    async def _result_of(self, message: bytearray) -> ChildResult | None:
        """Return the result if the message is one. A note is given to `on_note`."""
        answer = decode_message(message, self.order)
        if isinstance(answer, (ChildSuccess, ChildDecision, ChildFailure)):
            return answer
        reply = self._on_note(answer)
        if isinstance(answer, ChildAsksKeys):
            await self.child.reply(reply)
        # Messages that have arrived are read without waiting: a child that sends all the time must let others run.
        await asyncio.sleep(0)
        return None


async def _wait_at_most(event: asyncio.Event, limit: timedelta) -> None:
    try:
        async with asyncio.timeout(limit.total_seconds()):
            await event.wait()
    except TimeoutError:
        return


@asynccontextmanager
async def _at_most(limit: timedelta | None, activity: str) -> AsyncIterator[None]:
    seconds = None if limit is None else limit.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimeoutError(f"{activity} for more than {seconds:g} s; its process was ended") from None
