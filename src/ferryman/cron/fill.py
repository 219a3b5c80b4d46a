"""`CrontabFill`: how far back a worker that starts adds the jobs of missed minutes."""

from __future__ import annotations

from dataclasses import dataclass

from ferryman.errors import CrontabError

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of a time phrase, in seconds, from the longest to the shortest."""

LONGEST = 520 * UNITS["w"]
"""Ten years: a worker that starts looks at each minute of a fill."""


@dataclass(frozen=True, slots=True, order=True, init=False, repr=False)
class CrontabFill:
    """How far back a worker that starts adds the jobs of missed minutes: `CrontabFill.hours(6)`.

    Values are compared by their length.
    """

    _seconds: int

    def __init__(self, weeks: int = 0, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0) -> None:
        counts = (weeks, days, hours, minutes, seconds)
        for count in counts:
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise CrontabError(f"a fill takes whole numbers, 0 or more; got {count!r}")
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
        """A fill of this many weeks."""
        return cls(weeks=count)

    @classmethod
    def days(cls, count: int) -> CrontabFill:
        """A fill of this many days of 24 hours."""
        return cls(days=count)

    @classmethod
    def hours(cls, count: int) -> CrontabFill:
        """A fill of this many hours."""
        return cls(hours=count)

    @classmethod
    def minutes(cls, count: int) -> CrontabFill:
        """A fill of this many minutes."""
        return cls(minutes=count)

    @classmethod
    def seconds(cls, count: int) -> CrontabFill:
        """A fill of this many seconds."""
        return cls(seconds=count)

    def total_seconds(self) -> int:
        """The length in seconds."""
        return self._seconds
