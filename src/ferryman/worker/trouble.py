"""Going on through trouble with the database: ever longer pauses, a line in the log at its start and at its end."""

from __future__ import annotations

import logging
import random
import time

logger = logging.getLogger("ferryman.worker")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0


class Trouble:
    """What one duty of the worker knows about its run of errors."""

    def __init__(self, duty: str) -> None:
        self._duty = duty
        self._failures = 0
        self._since = 0.0

    def pause_after(self, error: Exception) -> float:
        """Note a failure; the seconds to wait before the next try."""
        if self._failures == 0:
            self._since = time.monotonic()
            logger.warning(
                "%s failed; retrying: %s",
                self._duty,
                error,
                extra={"event": "duty_failed", "duty": self._duty},
            )
        self._failures += 1
        ceiling = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * float(2 ** min(self._failures, 10)))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers out; no secret depends on it

    def is_over(self) -> None:
        """Note a success."""
        if self._failures:
            seconds = time.monotonic() - self._since
            logger.info(
                "%s works again, after %d failures in %.1f s",
                self._duty,
                self._failures,
                seconds,
                extra={"event": "duty_works_again", "duty": self._duty, "count": self._failures},
            )
            self._failures = 0
