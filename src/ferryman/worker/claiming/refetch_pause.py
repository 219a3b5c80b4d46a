"""The pause after a fetch that found few jobs."""

from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING

from ferryman.hooks import LocalQueueRefetchDelayAbort, LocalQueueRefetchDelayExpired, LocalQueueRefetchDelayStart

if TYPE_CHECKING:
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import RefetchDelayConfig

ABORT_THRESHOLD_PER_SIZE = 5


class RefetchPause:
    """The pause, on or off. A change returns the event that reports it."""

    def __init__(self, config: RefetchDelayConfig | None, *, size: int, identity: Identity) -> None:
        self._config = config
        self._size = size
        self._identity = identity
        self._abort_threshold: int | None = None
        self.until: float | None = None

    @property
    def is_on(self) -> bool:
        """True while nothing may be fetched."""
        return self.until is not None

    def after_fetch(self, count: int, now: float) -> LocalQueueRefetchDelayStart | None:
        """Begin the pause, if a fetch that was not full found too few jobs."""
        if self._config is None or count > self._config.threshold:
            return None
        duration = self._config.duration * random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers out
        self.until = now + duration.total_seconds()
        self._abort_threshold = self._draw_abort_threshold(self._config)
        return LocalQueueRefetchDelayStart(
            worker_id=self._identity.id,
            duration=duration,
            threshold=self._config.threshold,
            abort_threshold=self._abort_threshold,
        )

    def after_pulse(self, count: int) -> LocalQueueRefetchDelayAbort | None:
        """End the pause early, if there were enough notifications since the last fetch."""
        threshold = self._abort_threshold
        if not self.is_on or threshold is None or count < threshold:
            return None
        self.until = None
        return LocalQueueRefetchDelayAbort(worker_id=self._identity.id, count=count, abort_threshold=threshold)

    def at(self, now: float) -> LocalQueueRefetchDelayExpired | None:
        """End the pause, if it is time."""
        if self.until is None or now < self.until:
            return None
        self.until = None
        return LocalQueueRefetchDelayExpired(worker_id=self._identity.id)

    def _draw_abort_threshold(self, config: RefetchDelayConfig) -> int | None:
        most = config.max_abort_threshold
        if most is None:
            most = self._size * ABORT_THRESHOLD_PER_SIZE
        if most >= sys.maxsize:
            return None
        return max(1, math.floor(random.random() * most))  # noqa: S311 - spreads workers out
