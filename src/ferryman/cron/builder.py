"""Schedules written in Python: `Cron.daily_at(send_report, 8, 0)`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypedDict

from ferryman.cron.crontab import Crontab
from ferryman.cron.entry_payload import with_payload
from ferryman.cron.timer import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, CrontabTimer, Field, check_value
from ferryman.errors import CrontabError
from ferryman.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from ferryman.cron.fill import CrontabFill
    from ferryman.jobs import JobKeyMode

    AnyTask = Task[..., Any] | str

_STEPS = Field("steps", 1, 59)
_LONGEST_MONTHS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


class Weekday(IntEnum):
    """A day of the week, with the number that crontabs use."""

    SUNDAY = 0
    MONDAY = 1
    TUESDAY = 2
    WEDNESDAY = 3
    THURSDAY = 4
    FRIDAY = 5
    SATURDAY = 6


class CronOptions(TypedDict, total=False):
    """The options of all builders, besides the task and the time; see `Crontab`.

    payload: plain values, an instance of the task's own type, or `task.job(…)`
    """

    id: str | None
    fill: CrontabFill | None
    max_attempts: int | None
    queue_name: str | None
    priority: int | None
    flags: Sequence[str] | None
    job_key: str | None
    job_key_mode: JobKeyMode | None
    payload: Any
    time_zone: str


class Cron:
    """Builds crontabs. A task is a `Task`, or the identifier of a task that runs elsewhere, in Node say.

    The payload is checked against the task. Options that are left out take the task's defaults.
    """

    @staticmethod
    def every_minute(task: AnyTask, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at each minute."""
        return Cron.from_timer(task, CrontabTimer(), **options)

    @staticmethod
    def every_n_minutes(task: AnyTask, n: int, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at minute 0 of each hour, and every n minutes from there; n is 1 to 59."""
        return Cron.from_timer(task, CrontabTimer(minutes=frozenset(range(0, 60, check_value(_STEPS, n)))), **options)

    @staticmethod
    def hourly_at(task: AnyTask, minute: int, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at this minute of each hour."""
        return Cron.from_timer(task, CrontabTimer(minutes=_only(MINUTES, minute)), **options)

    @staticmethod
    def daily_at(task: AnyTask, hour: int, minute: int, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at this time of each day."""
        timer = CrontabTimer(minutes=_only(MINUTES, minute), hours=_only(HOURS, hour))
        return Cron.from_timer(task, timer, **options)

    @staticmethod
    def weekly_on(task: AnyTask, weekday: int, hour: int, minute: int, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at this time, once a week: `Weekday.MONDAY`, or 0 to 7, where 0 and 7 are Sunday."""
        timer = CrontabTimer(
            minutes=_only(MINUTES, minute), hours=_only(HOURS, hour), weekdays=_only(WEEKDAYS, weekday)
        )
        return Cron.from_timer(task, timer, **options)

    @staticmethod
    def monthly_on(task: AnyTask, day: int, hour: int, minute: int, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at this time, on this day of each month that has it."""
        timer = CrontabTimer(minutes=_only(MINUTES, minute), hours=_only(HOURS, hour), days=_only(DAYS, day))
        return Cron.from_timer(task, timer, **options)

    @staticmethod
    def yearly_on(
        task: AnyTask, month: int, day: int, hour: int, minute: int, **options: Unpack[CronOptions]
    ) -> Crontab:
        """Fire at this time, on this day of each year that has it."""
        timer = CrontabTimer(
            minutes=_only(MINUTES, minute),
            hours=_only(HOURS, hour),
            days=_only(DAYS, day),
            months=_only(MONTHS, month),
        )
        if day > _LONGEST_MONTHS.get(month, DAYS.most):
            raise CrontabError(f"month {month} never has a day {day}: the schedule would never fire")
        return Cron.from_timer(task, timer, **options)

    @staticmethod
    def from_timer(task: AnyTask, timer: CrontabTimer, **options: Unpack[CronOptions]) -> Crontab:
        """Fire at the minutes of this timer, such as `parse_timer("0 8 * * 1-5")`."""
        payload = options.pop("payload", None)
        return with_payload(bare_crontab(task, timer, **options), payload, task if isinstance(task, Task) else None)


def bare_crontab(task: AnyTask, timer: CrontabTimer, **options: Any) -> Crontab:
    """Make the crontab without its payload, and without the options that depend on it; see `with_payload`."""
    if isinstance(task, str):
        return Crontab(timer, task, **options)
    if not isinstance(task, Task):
        raise CrontabError(
            f"a schedule needs a task, or the identifier of one; got {task!r}. "
            f"Put @app.cron above @app.task; a task class is found as app.tasks[identifier]."
        )
    return Crontab(timer, task.identifier, **options)


def _only(field: Field, value: int) -> frozenset[int]:
    return frozenset({check_value(field, value)})
