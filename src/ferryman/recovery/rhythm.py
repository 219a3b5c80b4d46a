"""How often a worker gives signs of life and looks for those of others. Seconds, all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.recovery.config import RecoverySettings

LOOK_SECONDS = 2.5
"""With a poll every two seconds, an idle worker stays below one transaction per second."""
LOOKS_IN_A_GRACE = 4
"""A worker proves at each look that its session lasts, and must do so well within the grace."""
LONGEST_MARGIN_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_SETTLING_SECONDS = 10.0
SHORTEST_CONNECT_SECONDS, LONGEST_CONNECT_SECONDS = 5.0, 30.0
"""A slow network needs more than a server that is gone should get."""
ROUND_TRIPS_IN_A_GRACE = 10
"""A worker that has lost its connection needs about eight of them to connect and to beat again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The times of recovery that concern signs of life.

    beat: between two beats
    sweep: between two looks for workers that have stopped beating
    silent_after: how long a worker must have been silent to be told of
    grace: how long a session may be missing; None: sessions say nothing, and beats decide alone
    look: between two looks at the sessions of others
    longer_silences: the other thresholds of silence, at which a worker should be told of again
    """

    beat: float
    sweep: float
    silent_after: float
    grace: float | None
    look: float = LOOK_SECONDS
    longer_silences: Sequence[float] = ()

    @classmethod
    def of(cls, settings: RecoverySettings) -> Self:
        """The rhythm that a user has asked for."""
        grace = None if settings.lost_session_grace is None else settings.lost_session_grace.total_seconds()
        threshold, claimed = settings.sweep_threshold.total_seconds(), settings.claimed_threshold.total_seconds()
        silences = sorted({threshold, claimed, threshold * settings.resilient_sweep_threshold_multiplier})
        return cls(
            beat=settings.heartbeat_interval.total_seconds(),
            sweep=settings.sweep_interval.total_seconds(),
            silent_after=silences[0],
            grace=grace,
            look=LOOK_SECONDS if grace is None else min(LOOK_SECONDS, grace / LOOKS_IN_A_GRACE),
            longer_silences=silences[1:],
        )

    @property
    def tick(self) -> float:
        """Between two questions to the database, of whatever kind."""
        return min(self.look, self.beat)

    @property
    def longest_gap(self) -> float:
        """Beyond this time between an answer and the next question, an observer has missed something."""
        return 2 * self.tick

    @property
    def settling(self) -> float:
        """How long workers need to come back after an outage."""
        return min(LONGEST_SETTLING_SECONDS, self.silent_after / 2) if self.grace is None else self.grace

    @property
    def margin(self) -> float:
        """How much sooner than others may act a worker must stop by itself."""
        return min(LONGEST_MARGIN_SECONDS, self.settling / 5, (self.silent_after - self.beat) / 2)

    @property
    def longest_pause(self) -> float:
        """Between two tries to reconnect. A worker must be back well within the grace that others give it."""
        return min(LONGEST_PAUSE_SECONDS, self.settling / 5)

    @property
    def connect_seconds(self) -> int:
        """How long a new connection may take, unless the network is known to be slow."""
        longest = self.silent_after if self.grace is None else self.grace
        return round(min(LONGEST_CONNECT_SECONDS, max(SHORTEST_CONNECT_SECONDS, longest / 2)))

    def least_grace(self, round_trip: float) -> float | None:
        """The grace that round trips of so many seconds need, if ours is shorter."""
        least = ROUND_TRIPS_IN_A_GRACE * round_trip
        return None if self.grace is None or least <= self.grace else least
