"""How far back a schedule makes up for minutes when no worker ran."""

from __future__ import annotations

from dataclasses import dataclass

from ferryman.errors import CrontabError

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of a time phrase, in seconds, from the longest to the shortest."""

LONGEST = 520 * UNITS["w"]
"""Ten years: each minute of a fill is looked at when a worker starts."""


@dataclass(frozen=True, slots=True, order=True, init=False, repr=False)
class CrontabFill:
    """How far back a worker that starts makes up for minutes when no worker ran: `CrontabFill.hours(6)`.

    Values are compared by their length.
    """

    _seconds: int

    def __init__(self, weeks: int = 0, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0) -> None:
        counts = (weeks, days, hours, minutes, seconds)
        for count in counts:
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise CrontabError(f"a fill is made of whole numbers from 0 on; got {count!r}")
        total = sum(count * length for count, length in zip(counts, UNITS.values(), strict=True))
        if total > LONGEST:
            raise CrontabError(f"a fill is at most {LONGEST // UNITS['w']} weeks long; got {total:,} seconds")
        object.__setattr__(self, "_seconds", total)

    def __repr__(self) -> str:
        return f"CrontabFill({str(self)!r})"

    def __str__(self) -> str:
        """The shortest time phrase of this length, such as 1d12h."""
        phrase, rest = "", self._seconds
        for unit, length in UNITS.items():
            count, rest = divmod(rest, length)
            phrase += f"{count}{unit}" if count else ""
        return phrase or "0s"

    @classmethod
    def weeks(cls, count: int) -> CrontabFill:
        """So many weeks."""
        return cls(weeks=count)

    @classmethod
    def days(cls, count: int) -> CrontabFill:
        """So many days of 24 hours."""
        return cls(days=count)

    @classmethod
    def hours(cls, count: int) -> CrontabFill:
        """So many hours."""
        return cls(hours=count)

    @classmethod
    def minutes(cls, count: int) -> CrontabFill:
        """So many minutes."""
        return cls(minutes=count)

    @classmethod
    def seconds(cls, count: int) -> CrontabFill:
        """So many seconds."""
        return cls(seconds=count)

    def total_seconds(self) -> int:
        """The length in seconds."""
        return self._seconds
