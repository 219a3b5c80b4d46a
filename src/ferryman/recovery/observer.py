"""Decides which workers are dead, from the heartbeats and session locks that this worker has observed.

The observer trusts only its own monotonic clock, and counts no time in which it could not look: while the database was
away no worker could send a heartbeat, and while the observer was stopped it saw none. A worker is silent for as long
as its heartbeat has the same value over *observed* time. The age of that value by the database's clock proves nothing.

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
"""A dead worker and its last heartbeat."""

LOOKS_TO_MEASURE = 8
"""The fastest of this many looks shows how long a round trip takes."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The findings of a look about one worker that may be dead."""

    worker_id: str
    beat: datetime
    has_lost_session: bool = False
    """True if it should hold a session lock and does not."""
    is_old: bool = False
    """True if its heartbeat is old by the database's clock."""
    beat_interval: float = 0.0
    """Its heartbeat interval in seconds; 0 if its row does not name one."""
    is_late: bool = False
    """True if it has missed two heartbeats by the database's clock."""
    noted_silence: float = 0.0
    """For how many seconds earlier observers have seen this same heartbeat."""


class Dead(msgspec.Struct, frozen=True):
    """A worker that was silent for too long. A sweep must check that its heartbeat has not changed since."""

    worker_id: str
    last_heartbeat_at: datetime
    reason: Reason
    silent_for: float
    """For how many seconds its silence was observed."""
    limits_passed: int = 1
    """How many of the thresholds of silence it has passed. Each is a reason to sweep again."""

    @property
    def death(self) -> Death:
        """The identity of this death, the same in every report of it."""
        return self.worker_id, self.last_heartbeat_at


class SilentWorker(msgspec.Struct, frozen=True):
    """A worker that may be dead: since when, in observed time, and the thresholds in seconds."""

    beat: datetime
    since: float
    limits: Sequence[float]

    def limits_passed(self, now: float) -> int:
        """How many thresholds it has passed."""
        return sum(now - self.since >= limit for limit in self.limits)

    def next_limit_in(self, now: float) -> float | None:
        """Seconds until it passes the next threshold; None after the last."""
        return next((left for limit in self.limits if (left := self.since + limit - now) > 0), None)


class ObservedTime:
    """A clock that runs only while the observer can look. It stands still during each gap, and remembers the last.

    longest_gap: if more seconds pass between an answer and the next question, the observer itself was held up

    An answer that takes much longer than usual shows that the database was held up, perhaps since the answer before.
    The time before such a look does not count either, but what was observed earlier does.

    The answer to a statement that is no look also proves that neither side is held up. Without it, a slow statement
    between two looks would seem to be a gap. Its round trip does not count as observed time.
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
        """The fastest of the last answers, in seconds; None before there were enough."""
        return min(self._round_trips) if len(self._round_trips) == LOOKS_TO_MEASURE else None

    def looked(self, *, sent: float, received: float) -> bool:
        """Note the answer to a look. Returns True if there was no gap since the answer before."""
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
        """Note the answer to a statement that was no look."""
        if self._last_answer is None or sent - self._last_answer > self._longest_gap:
            self._last_answer = None
            return
        self._last_answer = received
        self._seconds_of_others += received - sent
        self._was_held_up = self._was_held_up or self._is_slow(received - sent)

    def interrupt(self) -> None:
        """Note that the observer could not look."""
        self._last_look = self._last_answer = None
        self._was_held_up, self._seconds_of_others = False, 0.0
        self._round_trips.clear()

    def _is_slow(self, seconds: float) -> bool:
        return seconds - min(self._round_trips) > self._longest_gap / 2


class SilenceObserver:
    """Decides which workers are dead, from one look after the other.

    grace: how long after losing its session lock, without a heartbeat, a worker is dead; starts anew after each gap
    silences: how long a worker must be silent to be reported, and to be reported again; ascending. Gaps do not reset
        this time
    reconnect_time: for how long after a gap no silence is reported, since workers need time to reconnect
    longest_gap: if more time passes between two looks, something was missed
    """

    def __init__(self, *, grace: float, silences: Sequence[float], reconnect_time: float, longest_gap: float) -> None:
        self._grace = grace
        self._silences = silences
        self._reconnect_time = reconnect_time
        self._time = ObservedTime(longest_gap)
        self._lost: dict[str, SilentWorker] = {}
        self._silent: dict[str, SilentWorker] = {}
        self._late: dict[str, float] = {}
        """Workers that have missed heartbeats, and the silence that their rows note."""

    @property
    def observed_seconds(self) -> float:
        """For how long this observer could look, in total."""
        return self._time.now

    @property
    def round_trip(self) -> float | None:
        """The fastest of the last answers, in seconds; None before that is known."""
        return self._time.round_trip

    @property
    def is_young(self) -> bool:
        """True if this observer has not looked for long enough to find any worker silent by itself."""
        return self._time.now < self._silences[0]

    @property
    def has_late(self) -> bool:
        """True if a worker has missed heartbeats."""
        return bool(self._late)

    @property
    def silences_to_note(self) -> list[tuple[str, datetime, float]]:
        """Workers that have missed heartbeats, the last heartbeat, and how long it was observed to be unchanged."""
        return [
            (worker_id, candidate.beat, seconds)
            for worker_id, noted in self._late.items()
            if (candidate := self._silent.get(worker_id)) is not None
            and (seconds := self._time.now - candidate.since) > noted
        ]

    def could_not_look(self) -> None:
        """Note a gap in the observation: the database did not answer, or the connection is a new one."""
        self._time.interrupt()
        self._lost.clear()

    def asked(self, *, sent: float, received: float) -> None:
        """Note the answer to another statement than a look: it shows that the database is not held up."""
        self._time.asked(sent=sent, received=received)

    def looked(self, signs: Sequence[Sign], *, is_full: bool, sent: float, received: float) -> list[Dead]:
        """Take the findings of a look, and return the dead workers. Only a full look shows old heartbeats."""
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
        if is_full and self._seconds_to_reconnect() <= 0:
            lost = {one.worker_id for one in dead}
            dead += [one for one in self._over(self._silent, "silent") if one.worker_id not in lost]
        return dead

    @property
    def next_lost_in(self) -> float | None:
        """Seconds until the grace of the first worker with a lost session ends; None if there is none."""
        return self._earliest(self._lost)

    @property
    def next_silent_in(self) -> float | None:
        """Seconds until a full look could find a worker silent for too long; None if none is suspect."""
        seconds = self._earliest(self._silent)
        return None if seconds is None else max(seconds, self._seconds_to_reconnect())

    def _patience_with(self, sign: Sign) -> Sequence[float]:
        # Its heartbeat interval may be longer than this worker's, and one heartbeat may be late.
        least = BEATS_BEFORE_SILENCE * sign.beat_interval
        return sorted({max(silence, least) for silence in self._silences})

    def _continued(
        self, before: dict[str, SilentWorker], signs: Sequence[tuple[Sign, Sequence[float]]]
    ) -> dict[str, SilentWorker]:
        """The workers that may be dead by this look. One whose heartbeat has changed since then starts anew."""
        return {
            sign.worker_id: known
            if (known := before.get(sign.worker_id)) is not None and known.beat == sign.beat
            else SilentWorker(sign.beat, self._time.now - sign.noted_silence, limits)
            for sign, limits in signs
        }

    def _over(self, candidates: dict[str, SilentWorker], reason: Reason) -> list[Dead]:
        now = self._time.now
        return [
            Dead(worker_id, candidate.beat, reason, now - candidate.since, passed)
            for worker_id, candidate in candidates.items()
            if (passed := candidate.limits_passed(now))
        ]

    def _seconds_to_reconnect(self) -> float:
        return self._reconnect_time - (self._time.now - self._time.last_gap)

    def _earliest(self, candidates: dict[str, SilentWorker]) -> float | None:
        times = (one.next_limit_in(self._time.now) for one in candidates.values())
        return min((seconds for seconds in times if seconds is not None), default=None)
