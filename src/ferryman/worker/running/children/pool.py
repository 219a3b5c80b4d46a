"""The children of a worker: started when there is work for them, and kept a while for more."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, Self

from ferryman.errors import ConfigurationError
from ferryman.worker.memory import resident_bytes
from ferryman.worker.running.children.child import Child
from ferryman.worker.running.children.crashes import NotOursError, PoolClosedError, WorkerCrashed
from ferryman.worker.running.children.errands import Errand
from ferryman.worker.running.children.framing import UnreadableError
from ferryman.worker.running.children.messages import ChildFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.worker.running.children.messages import ChildNote, ChildResult
    from ferryman.worker.running.children.orders import ChildOrder


class ChildPool:
    """Runs orders in child processes, at most `size` at a time. Belongs to one event loop, and to its thread.

    size: how many children there may be; further orders wait their turn
    idle_timeout: a child without work is dismissed after that
    start_timeout: how long a child may take to come up and to import the module of a task
    max_jobs: a child that has run so many orders is replaced; None for never
    max_memory: a child that uses more bytes after an order is replaced; None for never
    kill_grace: how long a task that was interrupted may tidy up before its process is killed
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
        self._at_rest = asyncio.Event()
        self._at_rest.set()
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
        """Run an order, and give back what came of it. When this raises, no process works on the order any more.

        on_note: called with what the child tells meanwhile; what it returns is the answer, if that was a question
        may_start: asked when a child is there, right before it is given the order

        `TimeoutError` when the task runs longer than `timeout`, waiting and importing not counted; `WorkerCrashed` when
        its process ends; `PoolClosedError` when the pool does; `NotOursError` when the order may not start any more;
        `OSError` when no process can be started. A cancelled call ends the process. Only this one job is affected.
        """
        async with self._slots:
            if not may_start():
                raise NotOursError
            if self._idle:
                errand = Errand(self._take(), order, on_note, may_start)
                try:
                    return await self._lend(errand, timeout)
                except WorkerCrashed:
                    # It may have died while it was idle, which is no fault of this job. A second crash is.
                    if errand.has_begun:
                        raise
            return await self._lend(Errand(self._start(order), order, on_note, may_start), timeout)

    async def close(self, grace: timedelta = timedelta(0)) -> None:
        """Dismiss idle children at once, and end the busy ones when `grace` is over. Comes back when all are gone."""
        self._is_closed = True
        for child in [*self._idle]:
            self._dismiss(child)
        try:
            await _wait_at_most(self._at_rest, grace)
        finally:  # whoever cancels this does not want to wait, but wants them gone
            for child in self._busy:
                self._track(child.end(self._grace_seconds))
        await self._at_rest.wait()
        while self._endings:
            await asyncio.wait(self._endings)

    async def _lend(self, errand: Errand, limit: timedelta | None) -> ChildResult:
        self._busy.add(errand.child)
        self._at_rest.clear()
        try:
            result = await self._result_or_end(errand, limit)
            errand.child.orders_done += 1
            self._keep(errand.child)
        finally:
            self._busy.discard(errand.child)
            if not self._busy:
                self._at_rest.set()
        return result

    async def _result_or_end(self, errand: Errand, limit: timedelta | None) -> ChildResult:
        try:
            return await errand.run(self._start_timeout, limit)
        except (EOFError, ConnectionError):
            await self._raise_crash(errand)
        except UnreadableError as error:
            await self._end(errand.child)
            return ChildFailure.saying(f"{error}; its process was ended")
        except NotOursError:
            self._keep(errand.child)  # it has seen nothing
            raise
        except BaseException:
            await self._end(errand.child)
            raise

    async def _raise_crash(self, errand: Errand) -> NoReturn:
        was_told = errand.child.is_ending
        exit_code = await self._end(errand.child)
        if was_told:
            raise PoolClosedError(f"the worker stopped before {errand.order} finished; its process was ended")
        raise WorkerCrashed.of(errand.order, exit_code, has_begun=errand.has_begun)

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
        if self._is_closed or child.exited.done() or self._is_due(child):
            self._dismiss(child)

    def _is_due(self, child: Child) -> bool:
        """True if the child has run enough orders, or uses too much memory: the next order starts another."""
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


async def _wait_at_most(event: asyncio.Event, limit: timedelta) -> None:
    try:
        async with asyncio.timeout(limit.total_seconds()):
            await event.wait()
    except TimeoutError:
        return
