"""How long a worker can be sure that no other has declared it dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ferryman.recovery.rhythm import Rhythm

NEVER = float("-inf")


class SafetyWindow:
    """How long this worker can be sure that no other has declared it dead. Outside it, it starts no job.

    No worker declares another dead before its session lock was gone for `grace`, or its heartbeat unchanged for
    `threshold`. The window ends a `margin` earlier. Times are those at which a statement was sent, which is before the
    database knew of it.

    One thread writes, others read: each time is a single number.
    """

    def __init__(self, *, threshold: float, grace: float, margin: float) -> None:
        self._threshold = threshold - margin
        self._grace = grace - margin
        self.has_session = True
        self.beaten_at = NEVER
        """When the newest heartbeat was sent that the database has confirmed."""
        self._proved_at = NEVER

    @classmethod
    def of(cls, rhythm: Rhythm) -> Self:
        """The window of a worker whose heartbeats have this rhythm."""
        return cls(threshold=rhythm.silent_after, grace=rhythm.reconnect_time, margin=rhythm.margin)

    def begin(self, *, has_session: bool) -> None:
        """Note that the worker is registered. `has_session`: whether it holds a session lock that others can miss."""
        self.has_session = has_session

    def beaten(self, at: float) -> None:
        """Note that the heartbeat sent at this time was confirmed."""
        self.beaten_at = self._proved_at = at

    def proved(self, at: float) -> None:
        """Note that a statement sent at this time found the session alive and the worker registered."""
        self._proved_at = at

    def end(self) -> None:
        """Note that another worker has declared this one dead, or may have."""
        self.beaten_at = self._proved_at = NEVER

    def is_safe(self, now: float) -> bool:
        """True if a job that was claimed earlier may be started."""
        if now - self.beaten_at >= self._threshold:
            return False
        return not self.has_session or now - self._proved_at < self._grace
