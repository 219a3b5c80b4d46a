"""How a local queue behaves: frozen objects, checked whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_SIZE = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchDelayConfig:
    """A pause after a fetch that found few jobs, so that many workers do not ask for every single job.

    duration: how long, at most; each pause takes between half of it and all of it, so that workers spread out
    threshold: a fetch of more jobs than this, or of all that there was room for, is followed by no pause
    max_abort_threshold: a random number of announcements, up to this one, ends the pause early (default: five times the
        size of the queue; `sys.maxsize`: nothing ends it early)
    """

    duration: timedelta = timedelta(milliseconds=100)
    threshold: int = 0
    max_abort_threshold: int | None = None

    def __post_init__(self) -> None:
        _refuse(
            [
                *_unless(self.duration > timedelta(), "refetch_delay.duration must be greater than 0"),
                *_unless(self.threshold >= 0, "refetch_delay.threshold cannot be negative"),
                *_unless(
                    self.max_abort_threshold is None or self.max_abort_threshold > 0,
                    "refetch_delay.max_abort_threshold must be greater than 0",
                ),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueConfig:
    """How many jobs a worker claims ahead of its free slots, and for how long it keeps them.

    size: how many claimed jobs may wait for a slot
    ttl: how long; jobs that got no slot by then go back to the database as if they had never been claimed
    refetch_delay: a pause after a fetch that found few jobs (default: none)
    queue_count: a worker has one local queue, which serves all slots and holds `size` jobs this many times over
    """

    size: int = 100
    ttl: timedelta = timedelta(minutes=5)
    refetch_delay: RefetchDelayConfig | None = None
    queue_count: int = 1

    def __post_init__(self) -> None:
        _refuse(
            [
                *_unless(self.size > 0, "size must be greater than 0"),
                *_unless(self.size <= LARGEST_SIZE, f"size ({self.size}) must not exceed {LARGEST_SIZE}"),
                *_unless(self.queue_count > 0, "queue_count must be greater than 0"),
                *_unless(self.ttl > timedelta(), "ttl must be greater than 0"),
            ]
        )

    def problems(self, poll_interval: timedelta) -> Sequence[str]:
        """What is wrong with it in a worker that polls so often."""
        if self.refetch_delay is None or self.refetch_delay.duration <= poll_interval:
            return []
        duration, poll = (f"{each.total_seconds():g} s" for each in (self.refetch_delay.duration, poll_interval))
        return [f"local_queue.refetch_delay.duration ({duration}) must not be larger than poll_interval ({poll})"]


def _unless(is_fine: bool, problem: str) -> Sequence[str]:
    return [] if is_fine else [f"local_queue.{problem}"]


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise ConfigurationError("; ".join(problems))
