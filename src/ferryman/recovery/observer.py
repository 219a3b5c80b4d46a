"""Who is dead, judged by what an observer has seen itself.

No clock but the observer's own monotonic one is trusted, and no time counts in which it could not look: while the
database was away nobody could beat, and while the observer was stopped it saw no beats. A worker is silent for as long
as its beat has the same value over *observed* time; whether that value is old, the database's clock cannot tell.

Only the time from one answer to the next question is observed. A look happens in the database at some moment between
its question and its answer, so at least this much time has passed there, however slow the connection is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from ferryman.recovery.config import BEATS_BEFORE_SILENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Reason: TypeAlias = Literal["session lost", "silent"]
Death: TypeAlias = "tuple[str, datetime]"
"""A worker and its last beat."""

LOOKS_TO_MEASURE = 8
"""The fastest of the last looks shows how long a round trip takes. Of so many, at least one always counts."""


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
    is_late: bool = False
    """It has missed two beats by the clock of the database."""
    noted_silence: float = 0.0
    """Seconds over which earlier observers have seen this very beat."""


class Dead(msgspec.Struct, frozen=True):
    """A worker that gave no sign of life for too long. A sweep should check that its beat is still this one."""

    worker_id: str
    last_heartbeat_at: datetime
    reason: Reason
    silent_for: float
    """Seconds over which its silence was observed."""
    limits_passed: int = 1
    """How many of the thresholds for silence it has passed: each of them is a reason to sweep again."""

    @property
    def death(self) -> Death:
        """What stays the same over all reports of this worker."""
        return self.worker_id, self.last_heartbeat_at


class Suspect(msgspec.Struct, frozen=True):
    """A worker that may be dead, since when in observed time, and how long each of the thresholds is."""

    beat: datetime
    since: float
    limits: Sequence[float]

    def limits_passed(self, now: float) -> int:
        """How many thresholds are over."""
        return sum(now - self.since >= limit for limit in self.limits)

    def next_limit_in(self, now: float) -> float | None:
        """Seconds until the next threshold is over; None after the last."""
        return next((left for limit in self.limits if (left := self.since + limit - now) > 0), None)


class ObservedTime:
    """A clock that runs only while one can look. It stands still over each gap, and remembers the last one.

    longest_gap: seconds between an answer and the next question beyond which the observer itself was held up

    An answer that takes much longer than usual shows that the database was held up, perhaps since the answer before.
    The time before such a look does not count either, but what was observed earlier does.

    Not every question is a look. The answer to any other shows as well that neither side is held up; otherwise two
    questions between two looks would pass for a gap where answers are slow. Their round trips do not count either.
    """

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        self._last_look: float | None = None
        self._last_answer: float | None = None
        self._was_held_up = False
        self._seconds_of_others = 0.0
        self._round_trips: deque[float] = deque(maxlen=LOOKS_TO_MEASURE)
        self.now = 0.0
        self.last_gap = 0.0

    @property
    def round_trip(self) -> float | None:
        """Seconds that an answer takes at best, by the last looks; None before there were enough."""
        return min(self._round_trips) if len(self._round_trips) == LOOKS_TO_MEASURE else None

    def looked(self, *, sent: float, received: float) -> bool:
        """Note an answer, and whether one could look all the time since the one before."""
        self._round_trips.append(received - sent)
        is_steady = self._last_answer is not None and sent - self._last_answer <= self._longest_gap
        if not is_steady or self._last_look is None:
            self.last_gap = self.now
        elif not self._was_held_up and not self._is_slow(received - sent):
            self.now += sent - self._last_look - self._seconds_of_others
        self._last_look = self._last_answer = received
        self._was_held_up, self._seconds_of_others = False, 0.0
        return is_steady

    def asked(self, *, sent: float, received: float) -> None:
        """Note the answer to a question that was no look."""
        if self._last_answer is None or sent - self._last_answer > self._longest_gap:
            self._last_answer = None
            return
        self._last_answer = received
        self._seconds_of_others += received - sent
        self._was_held_up = self._was_held_up or self._is_slow(received - sent)

    def interrupt(self) -> None:
        """Note that one could not look."""
        self._last_look = self._last_answer = None
        self._was_held_up, self._seconds_of_others = False, 0.0
        self._round_trips.clear()

    def _is_slow(self, seconds: float) -> bool:
        return seconds - min(self._round_trips) > self._longest_gap / 2


class SilenceObserver:
    """Knows who is under suspicion. It is told of each look, and says who is dead.

    grace: how long a lost session, without a beat, makes a worker dead; after each gap it starts anew
    silences: how long a worker must be silent to be told of, and to be told of with more reason; ascending. This goes
        on over gaps, but nobody is dead sooner than `settling` after one: workers, too, need time to come back
    longest_gap: the time between two looks beyond which something was missed
    """

    def __init__(self, *, grace: float, silences: Sequence[float], settling: float, longest_gap: float) -> None:
        self._grace = grace
        self._silences = silences
        self._settling = settling
        self._time = ObservedTime(longest_gap)
        self._lost: dict[str, Suspect] = {}
        self._silent: dict[str, Suspect] = {}
        self._late: dict[str, float] = {}
        """Workers that have missed beats, and what is noted of their silence."""

    @property
    def observed_seconds(self) -> float:
        """For how long one could look, all in all."""
        return self._time.now

    @property
    def round_trip(self) -> float | None:
        """Seconds that an answer takes at best; None before that is known."""
        return self._time.round_trip

    @property
    def is_young(self) -> bool:
        """True if nobody can be found silent by what this observer has seen itself."""
        return self._time.now < self._silences[0]

    @property
    def has_late(self) -> bool:
        """True if a worker has missed beats."""
        return bool(self._late)

    @property
    def silences_to_note(self) -> list[tuple[str, datetime, float]]:
        """Workers that have missed beats, their newest beat, and for how long their silence was observed, by all."""
        return [
            (worker_id, suspicion.beat, seconds)
            for worker_id, noted in self._late.items()
            if (suspicion := self._silent.get(worker_id)) is not None
            and (seconds := self._time.now - suspicion.since) > noted
        ]

    def could_not_look(self) -> None:
        """Note that the database did not answer, or that the connection is another one."""
        self._time.interrupt()
        self._lost.clear()

    def asked(self, *, sent: float, received: float) -> None:
        """Note that the database has answered a question that was no look."""
        self._time.asked(sent=sent, received=received)

    def looked(self, signs: Sequence[Sign], *, is_full: bool, sent: float, received: float) -> list[Dead]:
        """Who is dead, after a look that showed these signs. Only a full one shows those with old beats."""
        if not self._time.looked(sent=sent, received=received):
            self._lost.clear()
        missed = [replace(sign, noted_silence=0.0) for sign in signs if sign.has_lost_session]
        self._lost = self._continued(self._lost, [(sign, [self._grace]) for sign in missed])
        if is_full:
            self._silent = self._continued(
                self._silent, [(sign, self._patience_with(sign)) for sign in signs if sign.is_old]
            )
            self._late = {sign.worker_id: sign.noted_silence for sign in signs if sign.is_old and sign.is_late}
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

    def _patience_with(self, sign: Sign) -> Sequence[float]:
        # Its beats may be further apart than ours, and one may be late.
        least = BEATS_BEFORE_SILENCE * sign.beat_interval
        return sorted({max(silence, least) for silence in self._silences})

    def _continued(
        self, before: dict[str, Suspect], signs: Sequence[tuple[Sign, Sequence[float]]]
    ) -> dict[str, Suspect]:
        """Suspects of this look. One that has beaten since the look before is a new suspect."""
        return {
            sign.worker_id: known
            if (known := before.get(sign.worker_id)) is not None and known.beat == sign.beat
            else Suspect(sign.beat, self._time.now - sign.noted_silence, limits)
            for sign, limits in signs
        }

    def _over(self, suspects: dict[str, Suspect], reason: Reason) -> list[Dead]:
        now = self._time.now
        return [
            Dead(worker_id, suspicion.beat, reason, now - suspicion.since, passed)
            for worker_id, suspicion in suspects.items()
            if (passed := suspicion.limits_passed(now))
        ]

    def _seconds_to_settle(self) -> float:
        return self._settling - (self._time.now - self._time.last_gap)

    def _earliest(self, suspects: dict[str, Suspect]) -> float | None:
        times = (one.next_limit_in(self._time.now) for one in suspects.values())
        return min((seconds for seconds in times if seconds is not None), default=None)
