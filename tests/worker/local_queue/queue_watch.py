"""What the tests of local queues watch: who ran, who waits, and what the queue told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ferryman import JobSpec, RawJobSpec
from ferryman.hooks import (
    HookRegistry,
    LocalQueueGetJobsComplete,
    LocalQueueInit,
    LocalQueueMode,
    LocalQueueRefetchDelayAbort,
    LocalQueueRefetchDelayExpired,
    LocalQueueRefetchDelayStart,
    LocalQueueReturnJobs,
    LocalQueueSetMode,
    SettleRefused,
)
from ferryman.worker import LocalQueueConfig
from tests.support.workers import worker_of

if TYPE_CHECKING:
    from ferryman import App, Worker

E = TypeVar("E")
EVENTS = (
    LocalQueueGetJobsComplete,
    LocalQueueInit,
    LocalQueueRefetchDelayAbort,
    LocalQueueRefetchDelayExpired,
    LocalQueueRefetchDelayStart,
    LocalQueueReturnJobs,
    LocalQueueSetMode,
    SettleRefused,
)


class QueueWatch:
    """Tasks `note`, which ends at once, and `stay`, which ends when it may."""

    def __init__(self, app: App) -> None:
        self.ran: list[int] = []
        self.inside = 0
        self.most_inside = 0
        self.may_end = asyncio.Semaphore(0)
        self.events: list[Any] = []
        self.hooks = HookRegistry()
        self._app = app
        for event in EVENTS:
            self.hooks.on(event, self.events.append)

        @app.task
        async def note(number: int) -> None:
            self.ran.append(number)

        @app.task
        async def stay(number: int) -> None:
            self.ran.append(number)
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            await self.may_end.acquire()
            self.inside -= 1

    def worker(self, config: LocalQueueConfig | None = None, **given: Any) -> Worker:
        """A worker with a local queue. It never polls, unless told to."""
        return worker_of(self._app, local_queue=config or LocalQueueConfig(), hooks=self.hooks, **given)

    def let_end(self, count: int) -> None:
        """Let so many of those inside end, or of those who come."""
        for _ in range(count):
            self.may_end.release()

    def told(self, kind: type[E]) -> list[E]:
        """The events of this kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def modes(self) -> list[LocalQueueMode]:
        """The modes that the queue was in; each change starts where the last one ended."""
        changes = self.told(LocalQueueSetMode)
        assert [change.old_mode for change in changes[1:]] == [change.new_mode for change in changes[:-1]]
        return [change.new_mode for change in changes]

    @property
    def fetched(self) -> list[int]:
        """How many jobs each fetch brought."""
        return [event.jobs_count for event in self.told(LocalQueueGetJobsComplete)]

    @property
    def returned(self) -> list[int]:
        """How many jobs were given back each time."""
        return [event.jobs_count for event in self.told(LocalQueueReturnJobs)]


def numbered(task: str, count: int, *, first: int = 0, **spec: Any) -> list[RawJobSpec]:
    """So many jobs of a task."""
    return [RawJobSpec(task, {"number": first + number}, JobSpec(**spec)) for number in range(count)]
