"""The orders that a worker sends to a child: which task to run, in which module it is, and for which job."""

from __future__ import annotations

import sys
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ferryman.discreet import Discreet
from ferryman.errors import TaskError
from ferryman.worker.running.children.log_records import LogLevels
from ferryman.worker.running.children.messages import MAX_RESULT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.jobs import Job
    from ferryman.leases import Lease
    from ferryman.tasks import Task


class TaskPlace(msgspec.Struct, frozen=True):
    """The module and the name by which another process finds a task."""

    module: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}"

    @classmethod
    def of(cls, task: Task[..., Any]) -> Self:
        """Return the place of `task`. Raises `TaskError` when another process could not find it there."""
        place = cls(getattr(task, "__module__", ""), getattr(task, "__qualname__", ""))
        if not place._holds(task):
            raise TaskError(
                f"task {task.identifier!r} cannot run in a child process: {task.place} is not found by the name "
                f"{place.qualname!r} in its module. Define the task at the top level of a module, under its own name."
            )
        return cls(_importable(place.module, task), place.qualname)

    @property
    def is_in_the_script(self) -> bool:
        """True if the task is defined in the script that was started, which a child imports under another name."""
        return self.module.rpartition(".")[2] == "__main__"

    def find(self, module: object) -> Any:
        """Return the object of this name in the module. Raises `AttributeError` if there is none."""
        return reduce(getattr, self.qualname.split("."), module)

    def _holds(self, task: Task[..., Any]) -> bool:
        try:
            found = self.find(sys.modules[self.module])
        except (KeyError, AttributeError):
            return False
        # A task class stays a class, and a function that was passed to `app.task`, not decorated, stays a function.
        return found is task or found is getattr(task, "__wrapped__", None)


class ChildOrder(Discreet, frozen=True, kw_only=True):
    """One job for a child. It consists of plain values, which every process can read."""

    place: TaskPlace
    identifier: str
    job: Job
    worker_id: str
    lease: Lease | None = None
    queue: Mapping[str, Any] | None = None
    """The keywords of the worker's client (`same_queue`). They contain its address, so they are never shown."""
    traceparent: str | None = None
    """The span of the attempt, which continues in the child."""
    log_levels: LogLevels = msgspec.field(default_factory=LogLevels.of_this_process)

    def __str__(self) -> str:
        return f"job {self.job.id} ({self.identifier!r})"

    def __repr__(self) -> str:
        return f"ChildOrder({self})"

    @property
    def largest_answer(self) -> int:
        """The most bytes that the result may have. The rest of a batch always fits: a character has at most four."""
        return max(MAX_RESULT_BYTES, 4 * len(self.job.payload_json))

    @classmethod
    def of(
        cls,
        task: Task[..., Any],
        job: Job,
        worker_id: str,
        lease: Lease | None = None,
        queue: Mapping[str, Any] | None = None,
        *,
        traceparent: str | None = None,
    ) -> Self:
        """Return an order to run `task` for `job`. Raises `TaskError` when another process could not find the task."""
        return cls(
            place=TaskPlace.of(task),
            identifier=task.identifier,
            job=job,
            worker_id=worker_id,
            lease=lease,
            queue=queue,
            traceparent=traceparent,
        )


def _importable(module: str, task: Task[..., Any]) -> str:
    """Return the name by which a child imports the module: the script that was started has another there."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is None and getattr(main, "__file__", None) is None:
        raise TaskError(
            f"task {task.identifier!r} cannot run in a child process: it was typed into an interactive session, "
            f"where no other process can find it. Define it in a file."
        )
    # multiprocessing leaves a package's __main__ alone, but it is a module like any other.
    return str(name) if name is not None and name.endswith(".__main__") else module
