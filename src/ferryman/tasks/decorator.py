"""`@app.task`: the options it takes, and the types that checkers see."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, final, overload

import msgspec

from ferryman.errors import TaskError
from ferryman.jobs import NO_SPEC, JobSpec
from ferryman.tasks.definitions import Definition
from ferryman.tasks.run_options import run_options
from ferryman.tasks.task import Task

P = ParamSpec("P")
R = TypeVar("R")
AnyClass = TypeVar("AnyClass", bound=type[Any])

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from ferryman.context import WorkerContext
    from ferryman.retries import AnyRetryPolicy, OnCrash
    from ferryman.tasks.run_options import RunIn
    from ferryman.tasks.upgrades import Upgrade

    # At run time both are `Task`. They differ in how they are called, which ParamSpec can say only by position.

    class PlainTask(Task[P, R]):
        """A task that is called with the arguments of its jobs."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Run the function."""

    class ContextTask(Task[P, R]):
        """A task whose first parameter is the context, which is not an argument of its jobs."""

        def __call__(self, ctx: WorkerContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
            """Run the function."""

    @final
    class Unannotated:
        """Matches only a first parameter of unknown type, which must not pass for the context."""


class TaskDecorator(msgspec.Struct, frozen=True):
    """Makes functions and classes tasks: `@app.task`, or `@app.task(identifier=…, max_attempts=…)`."""

    register: Callable[[Task[..., Any]], None]
    identifier: str | None = None
    defaults: JobSpec = NO_SPEC
    running: Mapping[str, Any] = msgspec.field(default_factory=dict)
    aliases: Sequence[str] = ()
    upgrade: Upgrade | None = None

    # A class can be called too, so this overlaps with the functions below; the first match is the one that counts.
    @overload
    def __call__(self, definition: AnyClass, /) -> AnyClass: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, definition: Callable[Concatenate[Unannotated, ...], R], /) -> Task[..., R]: ...

    @overload
    def __call__(self, definition: Callable[Concatenate[WorkerContext, P], R], /) -> ContextTask[P, R]: ...

    @overload
    def __call__(self, definition: Callable[P, R], /) -> PlainTask[P, R]: ...

    @overload
    def __call__(
        self,
        /,
        *,
        identifier: str | None = None,
        queue_name: str | None = None,
        max_attempts: int | None = None,
        priority: int | None = None,
        flags: Sequence[str] | None = None,
        run_in: RunIn | None = None,
        timeout: timedelta | None = None,
        retry: AnyRetryPolicy | None = None,
        batch: bool | None = None,
        on_crash: OnCrash | None = None,
        max_crashes: int | msgspec.UnsetType | None = msgspec.UNSET,
        aliases: Sequence[str] | None = None,
        upgrade: Upgrade | None = None,
    ) -> TaskDecorator: ...

    def __call__(
        self,
        definition: Any = None,
        /,
        *,
        identifier: str | None = None,
        queue_name: str | None = None,
        max_attempts: int | None = None,
        priority: int | None = None,
        flags: Sequence[str] | None = None,
        run_in: RunIn | None = None,
        timeout: timedelta | None = None,
        retry: AnyRetryPolicy | None = None,
        batch: bool | None = None,
        on_crash: OnCrash | None = None,
        max_crashes: int | msgspec.UnsetType | None = msgspec.UNSET,
        aliases: Sequence[str] | None = None,
        upgrade: Upgrade | None = None,
    ) -> Any:
        """Make a task of `definition`, or return a decorator that will.

        identifier: the name of the task in the database (default: the name of the function; for a class, its attribute
            IDENTIFIER, or its name in snake case)
        queue_name, max_attempts, priority, flags: how its jobs are scheduled, unless `add_job` is told otherwise
        run_in: "loop" (async functions), "thread" (others), or "process" for either
        timeout: how long an attempt may take
        retry: how long a failed job waits for its next attempt: a policy of `ferryman.retries`, or a function of the
            attempts and the exception that returns a timedelta
        batch: whether the payload is a list of items, some of which may fail
        on_crash: what becomes of a job whose worker died while it ran: "requeue" (its attempt is given back), "retry"
            (its attempt is used up) or "fail" (it fails for good); default: what the recovery config says. The same
            when only its child process died, except that "requeue" is "retry" there: nothing but the job itself can
            have been the cause
        max_crashes: a job fails for good at this many crashes, 1 to 1,000; None: never, for jobs that orchestrators
            may evict again and again. Default: what the recovery config says
        aliases: names that the task had before; jobs that carry one of them are run as its own
        upgrade: a plain function that is given each payload before it is checked, as a dict, and returns the payload
            that today's parameters take; for jobs that an earlier version of the program has added
        """
        spec = JobSpec(queue_name=queue_name, max_attempts=max_attempts, priority=priority, flags=flags)
        given = {"run_in": run_in, "timeout": timeout, "retry": retry, "batch": batch, "on_crash": on_crash}
        running = {**self.running, **{name: value for name, value in given.items() if value is not None}}
        if max_crashes is not msgspec.UNSET:  # None is a choice
            running["max_crashes"] = max_crashes
        chosen = TaskDecorator(
            self.register,
            identifier or self.identifier,
            spec.over(self.defaults),
            running,
            self.aliases if aliases is None else aliases,
            self.upgrade if upgrade is None else upgrade,
        )
        if definition is None:
            return chosen
        # Annotations may use names of the function that the task is defined in.
        return chosen._define(definition, near=sys._getframe(1).f_locals)  # noqa: SLF001

    def _define(self, definition: Any, near: Mapping[str, Any]) -> Any:
        if not callable(definition) or isinstance(definition, Task):
            raise TaskError(f"only a function or a class can become a task; got {definition!r}")
        described = Definition(definition, near)
        running = run_options(described.is_async, **self.running)
        task: Task[..., Any] = Task(
            described,
            self.identifier or _identifier_of(described),
            self.defaults,
            running,
            aliases=self.aliases,
            upgrade=self.upgrade,
        )
        self.register(task)
        return definition if described.task_class else task


def _identifier_of(definition: Definition) -> str:
    name = definition.name
    if definition.task_class is not None:
        return getattr(definition.task_class, "IDENTIFIER", None) or _WORD_START.sub("_", name).lower()
    if not name.isidentifier():
        raise TaskError(f"{definition.subject!r} has no name, so its task needs an identifier: @app.task(identifier=…)")
    return name
