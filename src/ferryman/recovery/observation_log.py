"""Logs what keeps this worker from finding dead ones, so that recovery never stops unnoticed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.queries.beat import LockHolder
    from ferryman.recovery.rhythm import Rhythm

logger = logging.getLogger("ferryman.recovery")

BLIND_SECONDS = 60.0
"""A worker that could observe nothing for this long logs a warning."""


class ObservationLog:
    """Follows how well this worker can observe others, and warns once about each problem."""

    def __init__(self, rhythm: Rhythm, clock: Callable[[], float]) -> None:
        self._rhythm = rhythm
        self._clock = clock
        self._observed = 0.0
        self._since = clock()
        self._is_blind = False
        self._has_warned_of_grace = False

    def observed(self, seconds: float) -> None:
        """Note the total time that was observed so far. Call it after each look."""
        now = self._clock()
        if seconds > self._observed:
            if self._is_blind:
                logger.info(
                    "this worker can observe the heartbeats of other workers again, and find dead ones",
                    extra={"event": "observation_works_again"},
                )
            self._observed, self._since, self._is_blind = seconds, now, False
        elif not self._is_blind and now - self._since >= BLIND_SECONDS:
            self._is_blind = True
            logger.warning(
                "this worker could not observe the heartbeats of other workers for %.0f s, because the answers of the "
                "database are too far apart; it finds no dead workers until they come faster",
                now - self._since,
                extra={"event": "observation_failed", "seconds": now - self._since},
            )

    def disconnected(self) -> None:
        """Note that the connection was lost, which is logged elsewhere; the minute starts anew."""
        self._since = self._clock()

    def measured(self, round_trip: float | None) -> None:
        """Note the fastest of the last answers, and warn if the grace is too short for it."""
        if round_trip is None or self._has_warned_of_grace:
            return
        least = self._rhythm.least_grace(round_trip)
        if least is None:
            return
        self._has_warned_of_grace = True
        logger.warning(
            "recovery.lost_session_grace is %g s, but the database takes %.3g s to answer: a worker that loses its "
            "connection cannot reconnect in time and is declared dead; set lost_session_grace to at least %.2g s, or "
            "to None",
            self._rhythm.grace,
            round_trip,
            least,
            extra={"event": "grace_too_short", "round_trip": round_trip, "least_grace": least},
        )


class HeldLock:
    """Follows an advisory lock of recovery that a stranger holds, and logs each holder once.

    lock: the name of the lock, for the log
    meaning: what does not work meanwhile, for the log
    """

    def __init__(self, lock: str, meaning: str, clock: Callable[[], float]) -> None:
        self._lock = lock
        self._meaning = meaning
        self._clock = clock
        self._since: float | None = None
        self._named: int | None = None

    def is_free(self) -> None:
        """Note that no stranger holds the lock."""
        self._since = self._named = None

    def is_held(self, seconds: float) -> bool:
        """Note that a stranger may hold the lock. Returns True after `seconds` of that: time to read who it is."""
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since >= seconds

    def name(self, holder: LockHolder) -> None:
        """Log the holder, unless it was logged before."""
        if self._named == holder.pid or self._since is None:
            return
        self._named = holder.pid
        logger.warning(
            "a database session (pid %d, application %r, role %r) has held %s for %.0f s; as long as it does, %s. If "
            "it does not end by itself, end it: select pg_terminate_backend(%d)",
            holder.pid,
            holder.application_name,
            holder.role,
            self._lock,
            self._clock() - self._since,
            self._meaning,
            holder.pid,
            extra={
                "event": "recovery_lock_held",
                "lock": self._lock,
                "pid": holder.pid,
                "application_name": holder.application_name,
                "role": holder.role,
            },
        )
