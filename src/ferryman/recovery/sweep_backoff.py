"""Sweeps that change nothing, such as those of a worker whose jobs a hook skips: repeated ever more seldom."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman.recovery.observer import Dead

    Reported: TypeAlias = tuple[str, datetime, int]

FIRST_PAUSE_SECONDS = 2.0


class SweepBackoff:
    """Knows which of the dead were swept and are dead all the same. Each sweep reads all jobs, so it must not be often.

    longest_pause: seconds between two sweeps of the same worker, after some in vain
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self._pauses: dict[Reported, tuple[float, float]] = {}
        """When the pause after the last sweep is over, and how long it was."""

    def is_worth_it(self, dead: Dead, now: float) -> bool:
        """Whether to sweep this one now."""
        over_at, _ = self._pauses.get(_death(dead), (now, 0.0))
        return over_at <= now

    def swept(self, dead: Dead, now: float) -> None:
        """Note a sweep. If it was not in vain, nobody will tell of this one again."""
        first = min(FIRST_PAUSE_SECONDS, self._longest_pause)
        _, last = self._pauses.get(_death(dead), (0.0, first / 2))
        pause = min(2 * last, self._longest_pause)
        # Whoever was not told of for so long was swept, or lives.
        current = {death: known for death, known in self._pauses.items() if now - known[0] < 2 * self._longest_pause}
        self._pauses = {**current, _death(dead): (now + pause, pause)}


def _death(dead: Dead) -> Reported:
    # A sweep that came before the next threshold says nothing about one that comes after it.
    return dead.worker_id, dead.last_heartbeat_at, dead.limits_passed
