"""The crontabs of an application, each with a unique identifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ferryman.cron.entry_payload import with_payload
from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from ferryman.cron.builder import CronOptions
    from ferryman.cron.crontab import Crontab
    from ferryman.cron.timer import CrontabTimer
    from ferryman.tasks import Task, TaskRegistry

D = TypeVar("D")


class _Planned(msgspec.Struct, frozen=True, eq=False):
    """A schedule whose payload is checked later: annotations of its task can name what is defined below it."""

    crontab: Crontab
    payload: Any = None
    task: Task[..., Any] | None = None

    def finished(self) -> Crontab:
        return self.crontab if self.task is None else with_payload(self.crontab, self.payload, self.task)


class CrontabRegistry:
    """The crontabs of an application, by identifier."""

    def __init__(self) -> None:
        self._planned: dict[str, _Planned] = {}

    def add(self, crontabs: Iterable[Crontab]) -> None:
        """Add crontabs. If an identifier is taken, raise `CrontabError` and add none."""
        self._add_all([_Planned(crontab) for crontab in crontabs])

    def include(self, others: CrontabRegistry) -> None:
        """Add the crontabs of another registry, all or none. Adding them again changes nothing."""
        self._add_all(others._planned.values())

    def finished(self) -> list[Crontab]:
        """Return every crontab. Raises `CrontabError` if a payload does not fit its task."""
        return [planned.finished() for planned in self._planned.values()]

    def decorator(
        self, tasks: TaskRegistry, pattern: str | CrontabTimer, **options: Unpack[CronOptions]
    ) -> Callable[[D], D]:
        """Return a decorator that adds a schedule for the task below it."""
        # Most applications have no schedule.
        from ferryman.cron.builder import bare_crontab  # noqa: PLC0415
        from ferryman.cron.pattern import parse_timer  # noqa: PLC0415

        timer = parse_timer(pattern) if isinstance(pattern, str) else pattern
        payload = options.pop("payload", None)

        def schedule(definition: D) -> D:
            task: Any = _task_of(definition, tasks)
            crontab = bare_crontab(task, timer, **options)
            self._add_all([_Planned(crontab, payload, task)])
            return definition

        return schedule

    def _add_all(self, added: Iterable[_Planned]) -> None:
        merged = dict(self._planned)
        for planned in added:
            identifier = planned.crontab.identifier
            if merged.setdefault(identifier, planned) is not planned:
                raise CrontabError(
                    f"two schedules have the identifier {identifier!r}; each needs its own. Set id=… on one of them."
                )
        self._planned = merged


def _task_of(definition: Any, tasks: TaskRegistry) -> Any:
    """The task that the decorator below has made. A task class stays a class, so its task is looked up."""
    return next((task for task in tasks.values() if task.task_class is definition), definition)
