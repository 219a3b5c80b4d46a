"""Delays between sweeps that change nothing, such as those of a worker whose jobs a hook skips."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman.recovery.observer import Dead

    Reported: TypeAlias = tuple[str, datetime, int]

FIRST_PAUSE_SECONDS = 2.0


class SweepBackoff:
    """Delays repeated sweeps of a worker whose jobs stay locked. A sweep reads the whole jobs table.

    longest_pause: the longest delay between two sweeps of the same worker, in seconds
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self._pauses: dict[Reported, tuple[float, float]] = {}
        """When the delay after the last sweep ends, and how long it is."""

    def is_worth_it(self, dead: Dead, now: float) -> bool:
        """True if this dead worker should be swept now."""
        over_at, _ = self._pauses.get(_death(dead), (now, 0.0))
        return over_at <= now

    def swept(self, dead: Dead, now: float) -> None:
        """Note a sweep of this worker. If it succeeded, the worker is not reported again."""
        first = min(FIRST_PAUSE_SECONDS, self._longest_pause)
        _, last = self._pauses.get(_death(dead), (0.0, first / 2))
        pause = min(2 * last, self._longest_pause)
        # A worker that was not reported for this long was swept, or is alive.
        current = {death: known for death, known in self._pauses.items() if now - known[0] < 2 * self._longest_pause}
        self._pauses = {**current, _death(dead): (now + pause, pause)}


def _death(dead: Dead) -> Reported:
    # A sweep before the next threshold says nothing about one after it.
    return dead.worker_id, dead.last_heartbeat_at, dead.limits_passed
