"""Going on through trouble with the database: a line in the log at its start and at its end, and short pauses.

They stay short: after an outage, a worker must be back before others take it for dead.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("ferryman.recovery")

FIRST_PAUSE_SECONDS = 0.1
SECONDS_OF_HURRY = 60.0
"""For so long the pauses stay at their shorter limit; then twice that."""


class Reconnecting:
    """What the beats know about their run of errors."""

    def __init__(self, longest_pause: float, clock: Callable[[], float]) -> None:
        self._longest_pause = longest_pause
        self._clock = clock
        self._failures = 0
        self._since = 0.0

    def pause_after(self, error: Exception) -> float:
        """Note a failure; the seconds to wait before the next try."""
        if self._failures == 0:
            self._since = self._clock()
            logger.warning(
                "heartbeat failed; retrying: %s",
                str(error).strip(),
                extra={"event": "duty_failed", "duty": "signs of life"},
            )
        self._failures += 1
        is_long = self._clock() - self._since > SECONDS_OF_HURRY
        limit = self._longest_pause * (2 if is_long else 1)
        ceiling = min(limit, FIRST_PAUSE_SECONDS * float(2 ** min(self._failures, 10)))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers out; no secret depends on it

    def is_over(self) -> None:
        """Note a success."""
        if self._failures:
            seconds = self._clock() - self._since
            logger.info(
                "heartbeat works again, after %d failures in %.1f s",
                self._failures,
                seconds,
                extra={"event": "duty_works_again", "duty": "signs of life", "count": self._failures},
            )
            self._failures = 0
