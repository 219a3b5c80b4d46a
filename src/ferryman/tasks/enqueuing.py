"""`task.options(…).enqueue(…)`: adds a job of a task with other scheduling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.jobs import Job, JobSpec, NewJob

P = ParamSpec("P")


class JobAdder(Protocol):
    """Adds jobs for tasks: the clients of an application, or a stand-in."""

    async def add(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from async code."""

    def add_blocking(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from blocking code."""


class Enqueuing(Generic[P]):
    """The scheduling for jobs of a task. One value can add many jobs."""

    def __init__(self, job: Callable[P, NewJob], adder: JobAdder, spec: JobSpec, *, notify: bool, using: Any) -> None:
        self._job = job
        self._adder = adder
        self._spec = spec
        self._notify = notify
        self._using = using

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add a job with these arguments, through the application's own client."""
        return await self._adder.add(self._job(*args, **kwargs), self._spec, notify=self._notify, using=self._using)

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add a job from blocking code, in any thread; otherwise like `enqueue`."""
        job = self._job(*args, **kwargs)
        return self._adder.add_blocking(job, self._spec, notify=self._notify, using=self._using)
