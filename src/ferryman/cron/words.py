"""Describes schedules in words."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ferryman.cron.timer import EVERY_MINUTE, EVERY_MONTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from ferryman.cron.crontab import Crontab
    from ferryman.cron.timer import CrontabTimer

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = {2: "2nd", 3: "3rd", 4: "4th", 6: "6th", 8: "8th", 12: "12th"}
_MOST_TIMES = 6
_SHORTEST_RUN = 3


def describe(crontab: Crontab) -> str:
    """Describe the schedule: `at 08:00 from Monday to Friday, Europe/Paris`."""
    timer = crontab.timer
    parts = [_time(timer), _day(timer)]
    if timer.months != EVERY_MONTH:
        parts.append(f"in {_listed(timer.months, lambda month: _MONTHS[month])}")
    return f"{' '.join(filter(None, parts))}, {crontab.time_zone}"


def next_times(crontab: Crontab, after: datetime, count: int = 5) -> Iterator[datetime]:
    """The next minutes at which it fires, in UTC; fewer than `count` if there are no more."""
    for _ in range(count):
        found = crontab.next_after(after)
        if found is None:
            return
        yield (after := found)


def _time(timer: CrontabTimer) -> str:
    if _has_few_times(timer):
        hours, minutes = sorted(timer.hours), sorted(timer.minutes)
        return f"at {_joined(f'{hour:02}:{minute:02}' for hour in hours for minute in minutes)}"
    return f"{_minutes(timer.minutes)}{_hours(timer)}"


def _has_few_times(timer: CrontabTimer) -> bool:
    """True if the times of a day are few enough to be listed."""
    return timer.limits_hours and len(timer.hours) * len(timer.minutes) <= _MOST_TIMES


def _minutes(minutes: AbstractSet[int]) -> str:
    if minutes == EVERY_MINUTE:
        return "every minute"
    for step in range(2, 31):
        if minutes == frozenset(range(0, 60, step)) and 60 % step == 0:
            return f"every {step} minutes"
    return f"at minute {_listed(minutes, str)}"


def _hours(timer: CrontabTimer) -> str:
    """The hours, with a space in front; empty if the minutes say enough."""
    hours = sorted(timer.hours)
    if not timer.limits_hours:
        return " of every hour" if _minutes(timer.minutes).startswith("at") else ""
    if len(hours) == hours[-1] - hours[0] + 1:
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:59"
    for step, name in _ORDINALS.items():
        if hours == list(range(0, 24, step)):
            return f" of every {name} hour"
    return f" of the hours {_listed(hours, str)}"


def _day(timer: CrontabTimer) -> str:
    days = f"on day {_listed(timer.days, str)} of the month"
    weekdays = _weekdays(timer.weekdays)
    match timer.limits_days, timer.limits_weekdays:
        case True, True:
            return f"{days} and also {weekdays}"
        case True, False:
            return days
        case False, True:
            return weekdays
    return "every day" if _has_few_times(timer) else ""


def _weekdays(weekdays: AbstractSet[int]) -> str:
    """The weekdays. The week starts on Monday, so that the weekend is in one piece."""
    numbers = sorted(day or 7 for day in weekdays)
    if len(numbers) >= _SHORTEST_RUN and len(numbers) == numbers[-1] - numbers[0] + 1:
        return f"from {_WEEKDAYS[numbers[0]]} to {_WEEKDAYS[numbers[-1]]}"
    return f"on {_joined(_WEEKDAYS[number] for number in numbers)}"


def _listed(numbers: Iterable[int], name: Callable[[int], str]) -> str:
    """The numbers, with three and more in a row as `a to b`."""
    words = []
    for run in _runs(sorted(numbers)):
        if len(run) >= _SHORTEST_RUN:
            words.append(f"{name(run[0])} to {name(run[-1])}")
        else:
            words += map(name, run)
    return _joined(words)


def _runs(numbers: list[int]) -> list[list[int]]:
    runs = [numbers[:1]]
    for before, number in pairwise(numbers):
        if number == before + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _joined(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
