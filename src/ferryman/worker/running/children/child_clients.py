"""The clients of handlers in a child process, which has connections of its own."""

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

    They know the tasks whose modules this process has imported. Hooks run in the worker only.
    """

    def __init__(self) -> None:
        self._tasks = TaskRegistry()
        self._queue: Mapping[str, Any] | None = None
        self._blocking: LazySyncClient | None = None

    def blocking(self, queue: Mapping[str, Any]) -> LazySyncClient:
        """Return the client for a plain function. It connects when it is first used.

        queue: the keywords of the worker's client, from `same_queue`
        """
        if self._blocking is None or self._queue != queue:
            self.close()
            self._queue = queue
            self._blocking = LazySyncClient(**queue, tasks=self._known_tasks())
        self._known_tasks()
        return self._blocking

    def for_this_loop(self, queue: Mapping[str, Any]) -> LazyClient:
        """Return a client for an async function. The caller closes it before its event loop ends."""
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
