"""How often a worker sends heartbeats and looks at other workers. All times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.recovery.config import RecoverySettings

LOOK_SECONDS = 2.5
"""With a poll every two seconds, an idle worker stays below one transaction per second."""
LOOKS_IN_A_GRACE = 4
"""Each look proves that the session is alive, which must happen several times within the grace."""
LONGEST_MARGIN_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_RECONNECT_SECONDS = 10.0
SHORTEST_CONNECT_SECONDS, LONGEST_CONNECT_SECONDS = 5.0, 30.0
"""A slow network needs longer than a connection attempt to a dead server should take."""
ROUND_TRIPS_IN_A_GRACE = 10
"""A worker that has lost its connection needs about eight to reconnect and send a heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The times of heartbeats and looks.

    beat: time between two heartbeats
    sweep: time between two full looks, which find workers whose heartbeats have stopped
    silent_after: how long a worker is silent before it is reported
    grace: how long a session lock may be gone; None: sessions do not count, only heartbeats
    look: time between two looks at the session locks of others
    longer_silences: the longer thresholds of silence, at each of which a worker is reported again
    """

    beat: float
    sweep: float
    silent_after: float
    grace: float | None
    look: float = LOOK_SECONDS
    longer_silences: Sequence[float] = ()

    @classmethod
    def of(cls, settings: RecoverySettings) -> Self:
        """The rhythm that these settings ask for."""
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
        """Time between two statements: heartbeats or looks."""
        return min(self.look, self.beat)

    @property
    def longest_gap(self) -> float:
        """If more time than this passes between an answer and the next look, an observer has missed something."""
        return 2 * self.tick

    @property
    def reconnect_time(self) -> float:
        """How long workers have to reconnect after an outage before they can be declared dead."""
        return min(LONGEST_RECONNECT_SECONDS, self.silent_after / 2) if self.grace is None else self.grace

    @property
    def margin(self) -> float:
        """How much earlier a worker stops starting jobs than another could declare it dead."""
        return min(LONGEST_MARGIN_SECONDS, self.reconnect_time / 5, (self.silent_after - self.beat) / 2)

    @property
    def longest_pause(self) -> float:
        """The longest pause between two attempts to reconnect: well within the grace that others give."""
        return min(LONGEST_PAUSE_SECONDS, self.reconnect_time / 5)

    @property
    def connect_seconds(self) -> int:
        """How long connecting may take, unless the network is known to be slow."""
        longest = self.silent_after if self.grace is None else self.grace
        return round(min(LONGEST_CONNECT_SECONDS, max(SHORTEST_CONNECT_SECONDS, longest / 2)))

    def least_grace(self, round_trip: float) -> float | None:
        """The shortest grace that works with round trips of this many seconds; None if the configured one does."""
        least = ROUND_TRIPS_IN_A_GRACE * round_trip
        return None if self.grace is None or least <= self.grace else least
