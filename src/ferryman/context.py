"""What a running task may know about its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from ferryman.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The job that is running and the worker that runs it.

    A task asks for it with a parameter annotated `WorkerContext`; it is never part of the payload. In a test, make one
    yourself and call the task like the function that it is.
    """

    job: Job
    worker_id: str


class _NoContext:
    """Stands where the worker puts the context, and says so when something else runs the task."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TaskError(
            f"ctx.{name} was read, but no worker is running this task: it was called as a plain function. "
            f"Pass a WorkerContext as that argument."
        )

    def __repr__(self) -> str:
        return "CONTEXT"


CONTEXT = cast("WorkerContext", _NoContext())
"""The default of a context parameter that is not the first one: `def send(to: str, ctx: WorkerContext = CONTEXT)`.

It lets type checkers see that `send.job(to=…)` needs no context. The worker always passes the real one.
"""
