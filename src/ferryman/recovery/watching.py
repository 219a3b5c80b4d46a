"""Who is dead, judged by what an observer has seen itself.

No clock but the observer's own monotonic one is trusted, and no time counts in which it could not look: while the
database was away nobody could beat, and while the observer was stopped it saw no beats. A worker is silent for as long
as its beat has the same value over *observed* time; whether that value is old, the database's clock cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ferryman.recovery.settings import BEATS_BEFORE_SILENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Reason: TypeAlias = Literal["session lost", "silent"]


@dataclass(frozen=True, slots=True)
class Sign:
    """What a look showed of another worker that may be dead."""

    worker_id: str
    beat: datetime
    has_lost_session: bool = False
    """It should hold a session lock, and does not."""
    is_old: bool = False
    """Its beat looks old by the clock of the database."""
    beat_interval: float = 0.0
    """How often it means to beat; 0 when it does not say."""


@dataclass(frozen=True, slots=True)
class Dead:
    """A worker that gave no sign of life for too long. A sweep should check that its beat is still this one."""

    worker_id: str
    last_heartbeat_at: datetime
    reason: Reason
    silent_for: float
    """Seconds over which its silence was observed."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A worker that may be dead, since when in observed time, and for how long until it is."""

    beat: datetime
    since: float
    limit: float


class ObservedTime:
    """A clock that runs only while one can look. It stands still over each gap, and remembers the last one."""

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        self._last_look: float | None = None
        self.now = 0.0
        self.last_gap = 0.0

    def looked(self, *, sent: float, received: float) -> bool:
        """Note an answer, and whether one could look all the time since the one before.

        The time that the question took does not count: it was answered at some moment in it.
        """
        is_steady = self._last_look is not None and received - self._last_look <= self._longest_gap
        if is_steady and self._last_look is not None:
            self.now += sent - self._last_look
        else:
            self.last_gap = self.now
        self._last_look = received
        return is_steady

    def interrupt(self) -> None:
        """Note that one could not look."""
        self._last_look = None


class Observer:
    """Knows who is under suspicion. It is told of each look, and says who is dead.

    grace: how long a lost session, without a beat, makes a worker dead; after each gap it starts anew
    silent_after: how long a worker must be silent to be told of. This goes on over gaps, but nobody is dead sooner
        than `grace` after one: workers, too, need time to come back
    longest_gap: the time between two looks beyond which something was missed
    """

    def __init__(self, *, grace: float, silent_after: float, longest_gap: float) -> None:
        self._grace = grace
        self._silent_after = silent_after
        self._time = ObservedTime(longest_gap)
        self._lost: dict[str, Suspicion] = {}
        self._silent: dict[str, Suspicion] = {}

    def could_not_look(self) -> None:
        """Note that the database did not answer, or that the connection is another one."""
        self._time.interrupt()
        self._lost.clear()

    def looked(self, signs: Sequence[Sign], *, is_full: bool, sent: float, received: float) -> list[Dead]:
        """Who is dead, after a look that showed these signs. Only a full one shows those with old beats."""
        if not self._time.looked(sent=sent, received=received):
            self._lost.clear()
        self._lost = self._continued(self._lost, [(sign, self._grace) for sign in signs if sign.has_lost_session])
        if is_full:
            self._silent = self._continued(
                self._silent, [(sign, self._patience_with(sign)) for sign in signs if sign.is_old]
            )
        dead = self._over(self._lost, "session lost")
        if is_full and self._seconds_to_settle() <= 0:
            lost = {one.worker_id for one in dead}
            dead += [one for one in self._over(self._silent, "silent") if one.worker_id not in lost]
        return dead

    @property
    def next_lost_in(self) -> float | None:
        """Seconds until the grace of the earliest suspect ends; None without suspects."""
        return self._earliest(self._lost)

    @property
    def next_silent_in(self) -> float | None:
        """Seconds until a full look could find somebody silent for too long; None when there is nobody."""
        seconds = self._earliest(self._silent)
        return None if seconds is None else max(seconds, self._seconds_to_settle())

    def _patience_with(self, sign: Sign) -> float:
        # Its beats may be further apart than ours, and one may be late.
        return max(self._silent_after, BEATS_BEFORE_SILENCE * sign.beat_interval)

    def _continued(self, before: dict[str, Suspicion], signs: Sequence[tuple[Sign, float]]) -> dict[str, Suspicion]:
        """Suspects of this look. One that has beaten since the look before is a new suspect."""
        return {
            sign.worker_id: known
            if (known := before.get(sign.worker_id)) is not None and known.beat == sign.beat
            else Suspicion(sign.beat, self._time.now, limit)
            for sign, limit in signs
        }

    def _over(self, suspects: dict[str, Suspicion], reason: Reason) -> list[Dead]:
        return [
            Dead(worker_id, suspicion.beat, reason, self._time.now - suspicion.since)
            for worker_id, suspicion in suspects.items()
            if self._time.now - suspicion.since >= suspicion.limit
        ]

    def _seconds_to_settle(self) -> float:
        return self._grace - (self._time.now - self._time.last_gap)

    def _earliest(self, suspects: dict[str, Suspicion]) -> float | None:
        return min((one.since + one.limit - self._time.now for one in suspects.values()), default=None)
