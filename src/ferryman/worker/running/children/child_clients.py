"""The clients of handlers in a child process, over connections of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ferryman.client.lazy_clients import LazyClient, LazySyncClient
from ferryman.errors import DuplicateTaskError
from ferryman.tasks import TaskRegistry
from ferryman.tasks.task import all_made

if TYPE_CHECKING:
    from collections.abc import Mapping


class ChildClients:
    """One blocking client for all jobs of this process, and an async one for each job that has an event loop.

    Tasks are known to them as far as this process has imported their modules. Hooks stay with the worker.
    """

    def __init__(self) -> None:
        self._tasks = TaskRegistry()
        self._queue: Mapping[str, Any] | None = None
        self._blocking: LazySyncClient | None = None

    def blocking(self, queue: Mapping[str, Any]) -> LazySyncClient:
        """The client for a plain function; it connects when it is first used.

        queue: of the worker's client, from `same_queue`
        """
        if self._blocking is None or self._queue != queue:
            self.close()
            self._queue = queue
            self._blocking = LazySyncClient(**queue, tasks=self._known_tasks())
        self._known_tasks()
        return self._blocking

    def for_this_loop(self, queue: Mapping[str, Any]) -> LazyClient:
        """A client for an async function; to be closed before its event loop ends."""
        return LazyClient(**queue, tasks=self._known_tasks())

    def close(self) -> None:
        """Close the connections of the blocking client."""
        if self._blocking is not None:
            self._blocking.close()

    def _known_tasks(self) -> TaskRegistry:
        for task in all_made():
            with suppress(DuplicateTaskError):  # of another application
                self._tasks.add(task)
        return self._tasks
