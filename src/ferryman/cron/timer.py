"""`CrontabTimer`: the minutes at which a schedule fires, as five sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from datetime import date, datetime


class Field(NamedTuple):
    """A field of a pattern: its name, its smallest and its largest value."""

    name: str
    least: int
    most: int


MINUTES = Field("minutes", 0, 59)
HOURS = Field("hours", 0, 23)
DAYS = Field("days", 1, 31)
MONTHS = Field("months", 1, 12)
WEEKDAYS = Field("weekdays", 0, 7)


def _every(field: Field) -> frozenset[int]:
    return frozenset(range(field.least, field.most + 1))


EVERY_MINUTE = _every(MINUTES)
EVERY_HOUR = _every(HOURS)
EVERY_DAY = _every(DAYS)
EVERY_MONTH = _every(MONTHS)
EVERY_WEEKDAY = frozenset(range(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabTimer:
    """The minutes at which a schedule fires. A field that is left out is not limited.

    minutes: 0 to 59
    hours: 0 to 23
    days: of the month, 1 to 31
    months: 1 to 12
    weekdays: 0 to 6 from Sunday to Saturday; 7 is Sunday too

    If both days and weekdays are limited, a day needs to be in only one of them.
    """

    minutes: AbstractSet[int] = EVERY_MINUTE
    hours: AbstractSet[int] = EVERY_HOUR
    days: AbstractSet[int] = EVERY_DAY
    months: AbstractSet[int] = EVERY_MONTH
    weekdays: AbstractSet[int] = EVERY_WEEKDAY

    def __post_init__(self) -> None:
        for field in (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS):
            values = _checked(field, getattr(self, field.name))
            if field is WEEKDAYS:
                values = frozenset(value % 7 for value in values)
            object.__setattr__(self, field.name, values)

    def __repr__(self) -> str:
        limited = (
            f"{item.name}={sorted(values)}"
            for item in fields(self)
            if (values := getattr(self, item.name)) != item.default
        )
        return f"CrontabTimer({', '.join(limited)})"

    @property
    def limits_hours(self) -> bool:
        """True if some hours of the day are left out."""
        return self.hours != EVERY_HOUR

    @property
    def limits_days(self) -> bool:
        """True if some days of the month are left out."""
        return self.days != EVERY_DAY

    @property
    def limits_weekdays(self) -> bool:
        """True if some days of the week are left out."""
        return self.weekdays != EVERY_WEEKDAY

    def names_date(self, day: date) -> bool:
        """True if the timer can fire on this day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.limits_days and self.limits_weekdays:
            return in_month or in_week
        return in_month and in_week

    def names(self, moment: datetime) -> bool:
        """True if the timer fires at this minute, by the moment's own calendar and clock."""
        return moment.minute in self.minutes and moment.hour in self.hours and self.names_date(moment)


def _checked(field: Field, values: Iterable[int]) -> frozenset[int]:
    """Return the values as a set. Raises `CrontabError` if there are none, or one is out of range."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise CrontabError(f"{field.name} must be a set of whole numbers; got {values!r}")
    checked = frozenset(check_value(field, value) for value in values)
    if not checked:
        raise CrontabError(f"{field.name} must not be empty: the schedule would never fire")
    return checked


def check_value(field: Field, value: int) -> int:
    """Return the value. Raises `CrontabError` if it is not a whole number within the field's range."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise CrontabError(f"{field.name} take whole numbers; got {value!r}")
    if not field.least <= value <= field.most:
        raise CrontabError(f"{field.name} take {field.least} to {field.most}; got {value}")
    return int(value)
