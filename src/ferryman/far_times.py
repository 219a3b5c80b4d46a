"""Times that fit PostgreSQL but not Python's datetime: `infinity`, and years before 1 or after 9999."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

_EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
"""A little inside the limits of datetime, so that they can be shown in any time zone."""


class FarTime(datetime):
    """A time that fits PostgreSQL but not a datetime.

    As a datetime it is the end of the year 9999 or the beginning of the year 1: it compares and sorts as expected.
    `stored`, and `str()`, give it as PostgreSQL writes it: `infinity`, or `20000-01-01 00:00:00` (UTC).
    """

    stored: str = ""

    @classmethod
    def of(cls, stored: str) -> Self:
        """Return the time that PostgreSQL writes as `stored`."""
        near = _EARLIEST if stored.startswith("-") or stored.endswith("BC") else _LATEST
        made = cls(near.year, near.month, near.day, tzinfo=UTC)
        made.stored = stored
        return made

    def __str__(self) -> str:
        return self.stored or super().__str__()

    def __repr__(self) -> str:
        return f"FarTime.of({self.stored!r})" if self.stored else super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (type(self).of, (self.stored,)) if self.stored else super().__reduce_ex__(protocol)
