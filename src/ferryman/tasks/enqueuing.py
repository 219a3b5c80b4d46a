"""`task.options(…).enqueue(…)`: what a job is, how it is scheduled, and what adds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.jobs import Job, JobSpec, NewJob

P = ParamSpec("P")


class JobAdder(Protocol):
    """Adds jobs: an application, or what stands in for it."""

    async def add(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from async code."""

    def add_blocking(self, job: NewJob, spec: JobSpec | None, *, notify: bool, using: Any) -> Job:
        """Add a job from blocking code."""


class Enqueuing(Generic[P]):
    """How jobs of a task are to be added. It can be kept, and used for many."""

    def __init__(self, job: Callable[P, NewJob], adder: JobAdder, spec: JobSpec, *, notify: bool, using: Any) -> None:
        self._job = job
        self._adder = adder
        self._spec = spec
        self._notify = notify
        self._using = using

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add a job with the arguments of the function, through the application's own client."""
        return await self._adder.add(self._job(*args, **kwargs), self._spec, notify=self._notify, using=self._using)

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """`enqueue` for blocking code, in any thread."""
        job = self._job(*args, **kwargs)
        return self._adder.add_blocking(job, self._spec, notify=self._notify, using=self._using)
