"""How often a worker gives signs of life and looks for those of others. Seconds, all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ferryman.recovery.settings import RecoverySettings

LOOK_SECONDS = 2.5
"""With a poll every two seconds, an idle worker stays below one transaction per second."""
LOOKS_IN_A_GRACE = 4
"""A worker proves at each look that its session lasts, and must do so well within the grace."""
LONGEST_MARGIN_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The times of recovery that concern signs of life.

    beat: between two beats
    sweep: between two looks for workers that have stopped beating
    silent_after: how long a worker must have been silent to be told of
    grace: how long a session may be missing
    look: between two looks at the sessions of others
    """

    beat: float
    sweep: float
    silent_after: float
    grace: float
    look: float = LOOK_SECONDS

    @classmethod
    def of(cls, settings: RecoverySettings) -> Self:
        """The rhythm that a user has asked for."""
        grace = settings.lost_session_grace.total_seconds()
        return cls(
            beat=settings.heartbeat_interval.total_seconds(),
            sweep=settings.sweep_interval.total_seconds(),
            silent_after=min(settings.sweep_threshold, settings.claimed_threshold).total_seconds(),
            grace=grace,
            look=min(LOOK_SECONDS, grace / LOOKS_IN_A_GRACE),
        )

    @property
    def tick(self) -> float:
        """Between two questions to the database, of whatever kind."""
        return min(self.look, self.beat)

    @property
    def longest_gap(self) -> float:
        """Beyond this time between two answers, an observer has missed something."""
        return 2 * self.tick

    @property
    def margin(self) -> float:
        """How much sooner than others may act a worker must stop by itself."""
        return min(LONGEST_MARGIN_SECONDS, self.grace / 5)

    @property
    def longest_pause(self) -> float:
        """Between two tries to reconnect. A worker must be back well within the grace that others give it."""
        return min(LONGEST_PAUSE_SECONDS, self.grace / 5)
