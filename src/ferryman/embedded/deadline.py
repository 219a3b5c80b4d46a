"""A moment after which waiting is over."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Lie so many seconds ahead."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """How long is left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def ticks(self, every_seconds: float) -> Iterator[None]:
        """Yield at once, then at intervals, and end once the deadline has passed."""
        yield
        while remaining := self.remaining_seconds:
            time.sleep(min(every_seconds, remaining))
            yield
