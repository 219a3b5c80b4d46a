"""Until when a worker may be sure that nobody has taken its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ferryman.recovery.rhythm import Rhythm

NEVER = float("-inf")


class Lease:
    """The other side of the observers' rules, with a margin: a worker that may be taken for dead starts nothing.

    Nobody takes a worker for dead before its session was missing for `grace`, or its beat unchanged for `threshold`.
    The signs are dated by when they were sent, which is before the database knew of them.

    Written by one thread and read by others: each sign is a single number.
    """

    def __init__(self, *, threshold: float, grace: float, margin: float) -> None:
        self._threshold = threshold - margin
        self._grace = grace - margin
        self.has_session = True
        self._beaten_at = NEVER
        self._proved_at = NEVER

    @classmethod
    def of(cls, rhythm: Rhythm) -> Self:
        """For a worker whose signs have this rhythm."""
        return cls(threshold=rhythm.silent_after, grace=rhythm.settling, margin=rhythm.margin)

    @property
    def last_acknowledged(self) -> float:
        """When the last beat was sent that the database has confirmed."""
        return self._beaten_at

    def begin(self, *, has_session: bool) -> None:
        """Say whether there is a session that could be missed; behind a pooler there is none."""
        self.has_session = has_session

    def beaten(self, at: float) -> None:
        """Note a beat."""
        self._beaten_at = self._proved_at = at

    def proved(self, at: float) -> None:
        """Note that the session was alive, and the worker still registered."""
        self._proved_at = at

    def end(self) -> None:
        """Note that somebody has taken the jobs."""
        self._beaten_at = self._proved_at = NEVER

    def is_safe(self, now: float) -> bool:
        """Whether a job that was claimed earlier may be started."""
        if now - self._beaten_at >= self._threshold:
            return False
        return not self.has_session or now - self._proved_at < self._grace
