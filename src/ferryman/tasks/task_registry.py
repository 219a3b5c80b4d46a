"""The tasks of an application, by identifier and by class."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ferryman.errors import DuplicateTaskError, UnknownTaskError
from ferryman.tasks.forms import did_you_mean
from ferryman.tasks.task import Task

if TYPE_CHECKING:
    from ferryman.jobs import NewJob


class TaskRegistry(Mapping[str, Task[..., Any]]):
    """Tasks by identifier. Also finds tasks by their aliases, and by instances of task classes."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._of_name: dict[str, Task[..., Any]] = {}
        """Tasks by identifier and by alias."""
        self._of_class: dict[type, Task[..., Any]] = {}

    def __getitem__(self, identifier: str) -> Task[..., Any]:
        return self._tasks[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<TaskRegistry: {', '.join(self._tasks) or 'empty'}>"

    def add(self, task: Task[..., Any]) -> None:
        """Add a task. Adding the same task again changes nothing."""
        for name in task.identifiers:
            known = self._of_name.get(name, task)
            if known is not task:
                raise DuplicateTaskError(
                    f"two tasks have the identifier {name!r}: {known.place} and {task.place}. "
                    f"Give one of them another name with @app.task(identifier=…){_or_another_alias(name, known, task)}."
                )
        self._tasks[task.identifier] = task
        self._of_name.update(dict.fromkeys(task.identifiers, task))
        if task.task_class is not None:
            self._of_class.setdefault(task.task_class, task)

    def include(self, others: TaskRegistry) -> None:
        """Add all tasks of another registry, or none if one is refused."""
        merged = TaskRegistry()
        for task in (*self.values(), *others.values()):
            merged.add(task)
        self._tasks, self._of_name, self._of_class = merged._tasks, merged._of_name, merged._of_class

    @property
    def names(self) -> list[str]:
        """Every identifier and alias, sorted."""
        return sorted(self._of_name)

    def only(self, names: Iterable[str] | None, *, without: Iterable[str] = ()) -> TaskRegistry:
        """Select tasks by name, each with all its names; `UnknownTaskError` if a name is unknown.

        names: identifiers or aliases of tasks to keep; None: all
        without: those of tasks to leave out
        """
        kept = [*self.values()] if names is None else [self.find(name) for name in names]
        dropped = {self.find(name).identifier for name in without}
        chosen = TaskRegistry()
        for task in kept:
            if task.identifier not in dropped:
                chosen.add(task)
        return chosen

    def check(self) -> None:
        """Raise `TaskError` if an annotation names something that does not exist."""
        for task in self.values():
            task.check()

    def find(self, identifier: str) -> Task[..., Any]:
        """Return the task with this identifier or alias; `UnknownTaskError` if there is none."""
        task = self._of_name.get(identifier)
        if task is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTaskError(
                f"no task {identifier!r} is defined here{did_you_mean(identifier, self._of_name)}. Known tasks: {known}"
            )
        return task

    def job_of(self, instance: object) -> NewJob:
        """Make a job of an instance of a task class."""
        task = self._of_class.get(type(instance))
        if task is None:
            raise UnknownTaskError(f"{_mistake(instance)}; nothing was added")
        return task.job(instance)


def _or_another_alias(name: str, *tasks: Task[..., Any]) -> str:
    return ", or leave it out of aliases=…" if any(name in task.aliases for task in tasks) else ""


def _mistake(given: object) -> str:
    if isinstance(given, Task):
        return f"{given.identifier!r} is a task, not a job: pass {given.signature.partition('(')[0]}.job(…)"
    if inspect.iscoroutine(given):
        given.close()
        return f"{given.__qualname__}(…) was called instead of described: pass {given.__name__}.job(…)"
    if isinstance(given, type):
        return f"{given.__qualname__} is a class: pass an instance of it"
    if given is None:
        return "None is not a job: did you call task(…) instead of task.job(…)?"
    if isinstance(given, str):
        return f"{given!r} is a string, not a job: pass task.job(…), or add it by name with add_raw_job({given!r}, …)"
    return f"{type(given).__qualname__} is not a task class of this application: decorate it with @app.task"
