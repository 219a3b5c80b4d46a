"""The numbers by which the database knows this worker's tasks."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from ferryman.queries.claim import register_tasks
from ferryman.worker.claiming.claims import task_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ferryman.database.timed import TimedDatabase
    from ferryman.tasks import Task, TaskRegistry
    from ferryman.worker.claiming.claims import Claim

SECONDS_BETWEEN_REGISTRATIONS = 60.0
"""How long a busy worker may overlook jobs of a task that was cleaned away and has another number since."""


class TaskNumbers:
    """Registers the tasks of one worker, and finds the task of a claim.

    registry: the tasks
    """

    def __init__(
        self, database: TimedDatabase, registry: TaskRegistry, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._database = database
        self._registry = registry
        # Those of now: a task that is defined while the worker runs was neither checked nor announced to sweepers.
        self._names = registry.names
        self._clock = clock
        self._registered_at = 0.0
        self.ids: Sequence[int] = ()
        """The numbers that our tasks have now."""
        # Earlier numbers too: jobs that were claimed under these may still run.
        self._tasks: dict[int, Task[..., Any]] = {}
        self._identifiers: dict[int, str] = {}

    async def register(self) -> None:
        """Give each task of this worker a number in the database, and remember it."""
        numbers: Mapping[int, str] = {}
        started_at = self._clock()
        while len(numbers) < len(self._names):
            numbers = task_ids(await self._database.fetch(register_tasks(self._names)))
        # Only now: jobs that were claimed under the old numbers may start at any time, and the statement may fail.
        self.learn(numbers)
        self._registered_at = started_at

    async def refresh(self) -> None:
        """Register again if the last time was a while ago."""
        if self._clock() >= self._registered_at + SECONDS_BETWEEN_REGISTRATIONS:
            await self.register()

    def learn(self, numbers: Mapping[int, str]) -> None:
        """Use these as the numbers of this worker's tasks."""
        self.ids = [*numbers]
        self._identifiers.update(numbers)
        self._tasks.update({number: self._registry.find(name) for number, name in numbers.items()})

    def task_of(self, claim: Claim) -> Task[..., Any]:
        """The task whose handler runs the job."""
        return self._tasks[claim.task_id]

    def identifier_of(self, claim: Claim) -> str:
        """The identifier that the job carries, which may be an alias of its task."""
        return self._identifiers[claim.task_id]
