"""The clients of an application, with which `task.enqueue(…)` adds jobs. Each is opened at its first use.

An async client belongs to an event loop, a blocking one to a process, and neither survives its owner:

- each event loop has its own client, which is closed with it;
- all threads share one blocking client, which continues in a forked process with new connections;
- the jobs of a worker use the worker's clients, whose hooks are asked too.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ferryman.client.asynchronous import Client
from ferryman.client.lazy_clients import LazyClient, ReopeningSyncClient
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from ferryman.client.blocking import SyncClient
    from ferryman.jobs import Job, JobSpec, NewJob
    from ferryman.settings import Settings


class SharedClients:
    """The clients of one application. They connect again if they are used after `close`.

    They are closed when the process ends, or earlier when nothing refers to the application any more.

    settings: returns the application's settings; called when a client is made
    """

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._of_loop: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._blocking: ReopeningSyncClient | None = None
        self._borrowing: Client | None = None
        self._inherited: list[object] = []
        self.including: weakref.WeakSet[SharedClients] = weakref.WeakSet()
        _all.add(self)

    def included_by(self, other: SharedClients) -> None:
        """Add jobs of this application's tasks with the clients of another, which has included them."""
        if other is not self:
            self.including.add(other)

    async def add(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from async code."""
        client = self._client(using)
        return await client.add_job(job, spec, notify=notify, using=using)

    def add_blocking(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from blocking code."""
        return self._blocking_client().add_job(job, spec, notify=notify, using=using)

    def close(self) -> None:
        """Close all clients. Connections in use are closed when they are given back."""
        with self._lock:
            of_loops = [*self._of_loop.values()]
            blocking = self._blocking
        for each in of_loops:
            each.client.close_now()
        if blocking is not None:
            blocking.close()

    def start_anew(self) -> None:
        """Make the clients usable in a process that was just forked, without the parent's threads and event loops."""
        self._lock = threading.Lock()
        self._inherited.append(self._of_loop)  # garbage collection here would wake the loops of the parent
        self._of_loop = {}
        if self._blocking is not None:
            self._blocking.start_anew()

    def client_of_loop(self, settings: Settings | None) -> Client:
        """Return the client of the running event loop, made from `settings` if it has none yet."""
        loop = asyncio.get_running_loop()
        known = self._of_loop.get(loop)
        return self._add_loop(loop, settings) if known is None else known.client

    def client_that_borrows(self, settings: Settings | None) -> Client:
        """Return a client that never connects: it only uses connections that callers pass, on any event loop."""
        if settings is not None:
            return Client(settings=settings)
        if self._borrowing is None:
            self._borrowing = Client(settings=self._settings())
        return self._borrowing

    def blocking_client(self) -> SyncClient:
        """Return the blocking client, which all threads share."""
        client = self._blocking
        if client is None:
            with self._lock:
                client = self._blocking
                if client is None:
                    client = self._blocking = ReopeningSyncClient(settings=self._settings())
                    weakref.finalize(self, client.close)
        return client

    def owners(self) -> set[SharedClients]:
        """Return the clients of every application that includes this one and is not included itself."""
        found, seen, waiting = set(), set(), [self]
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                above = [*each.including]
                waiting += above
                if not above:
                    found.add(each)
        return found or {self}

    def _client(self, using: Any) -> Client:
        worker = _worker.get()
        if worker is None or not worker.serves(self):
            owner, settings = self._owner(), None
        elif worker.client is not None and worker.loop is asyncio.get_running_loop():
            return worker.client
        else:  # a handler with its own event loop
            owner, settings = worker.owner, worker.settings
        return owner.client_of_loop(settings) if using is None else owner.client_that_borrows(settings)

    def _blocking_client(self) -> SyncClient:
        worker = _worker.get()
        if worker is not None and worker.serves(self):
            return worker.blocking_client
        return self._owner().blocking_client()

    def _owner(self) -> SharedClients:
        """Return the clients of the outermost application that includes this one; its own if none does."""
        if not self.including:
            return self
        owners = self.owners()
        if len(owners) > 1:
            raise ConfigurationError(
                f"{len(owners)} applications include this task, so it is not clear which database its job belongs to. "
                f"Nothing was added. Add it with the client of one application: client.add_job(task.job(…))."
            )
        return owners.pop()

    def _add_loop(self, loop: asyncio.AbstractEventLoop, settings: Settings | None) -> Client:
        client = LazyClient(settings=settings or self._settings())
        end = self._forget_at_the_end_of(loop)
        with suppress(StopIteration):
            end.__anext__().send(None)  # now the loop knows the generator, and closes it as it closes all of them
        with self._lock:
            closed = [self._of_loop.pop(each) for each in [*self._of_loop] if each.is_closed()]
            self._of_loop[loop] = _LoopClient(client, weakref.finalize(self, client.close_now), end)
        for each in closed:
            each.close()
        return client

    async def _forget_at_the_end_of(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Close the client of a loop when the loop shuts down its generators, as `asyncio.run` does at its end."""
        try:
            yield
        finally:
            with self._lock:
                known = self._of_loop.pop(loop, None)
            if known is not None:
                known.close()


class _LoopClient(NamedTuple):
    """The client of an event loop, the function that closes the client, and the generator that ends with the loop."""

    client: LazyClient
    close: Callable[[], object]
    end: AsyncGenerator[None, None]


class _Worker:
    """The clients of a worker that runs an application's jobs."""

    def __init__(self, owner: SharedClients, client: Client | None, blocking_client: SyncClient) -> None:
        self.owner = owner
        self.client = client
        self.blocking_client = blocking_client
        self.loop = None if client is None else asyncio.get_running_loop()
        self.settings = blocking_client.settings
        self.is_over = False
        self._process = os.getpid()

    def serves(self, clients: SharedClients) -> bool:
        """True if the worker adds the jobs of this application: it is the worker's own, and the worker still runs.

        False in a process that a handler has forked.
        """
        if self.is_over or self._process != os.getpid():
            return False
        return clients is self.owner or not clients.owners().isdisjoint(self.owner.owners())


_worker: ContextVar[_Worker | None] = ContextVar("ferryman_worker", default=None)
"""The worker that runs the current job. Its tasks and threads inherit the value, so that no job pays for it."""
_all: weakref.WeakSet[SharedClients] = weakref.WeakSet()


@contextmanager
def lent_by_worker(owner: SharedClients, client: Client | None, blocking_client: SyncClient) -> Iterator[None]:
    """Add jobs with a worker's clients in this block, and in the tasks and threads that it starts.

    client: the worker's async client; None where there is no event loop
    """
    worker = _Worker(owner, client, blocking_client)
    token = _worker.set(worker)
    try:
        yield
    finally:
        worker.is_over = True
        _worker.reset(token)


def _was_forked() -> None:
    for each in [*_all]:
        each.start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)
