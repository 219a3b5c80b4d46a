"""Decides when to retry: operations that PostgreSQL rolled back, and work that fails while the database is away."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ferryman.database.failures import DEADLOCK_DETECTED, SERIALISATION_FAILURE, sqlstate_of

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

ATTEMPTS = 5
_ROLLED_BACK = {SERIALISATION_FAILURE, DEADLOCK_DETECTED}
"""Errors after which PostgreSQL has undone everything, so nothing happens twice."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0


def should_try_again(error: Exception, attempt: int) -> bool:
    """True if PostgreSQL has rolled back the whole operation, as after a deadlock, and attempts are left."""
    return attempt < ATTEMPTS and sqlstate_of(error) in _ROLLED_BACK


def pause_before(attempt: int) -> float:
    """Return the seconds to wait, partly random, so that two operations that collided once do not collide again."""
    return random.uniform(0.01, 0.02) * float(2**attempt)  # noqa: S311 - no secret depends on it


class Retrying:
    """Decides how long to wait while one kind of work keeps failing, and logs the first failure and the recovery.

    duty: what is retried, as log lines name it: "claiming jobs"
    logger: where these lines go
    longest: the longest pause between two tries, seconds; `LONGEST_PAUSE_SECONDS` unless given
    longest_after_a_minute: the longest pause once the failures have lasted for a minute; as before unless given
    clock: the time in seconds, for how long the failures lasted
    """

    def __init__(
        self,
        duty: str,
        *,
        logger: logging.Logger,
        longest: float | None = None,
        longest_after_a_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._duty = duty
        self._logger = logger
        self._longest = LONGEST_PAUSE_SECONDS if longest is None else longest
        self._longest_later = self._longest if longest_after_a_minute is None else longest_after_a_minute
        self._clock = clock
        self._failures = 0
        self._since = 0.0

    def pause_after(self, error: Exception) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        now, logger = self._clock(), self._logger
        if self._failures == 0:
            self._since = now
            logger.warning(
                "%s failed; retrying: %s",
                self._duty,
                str(error).strip(),
                extra={"event": "duty_failed", "duty": self._duty},
            )
        self._failures += 1
        longest = self._longest if now - self._since <= 60.0 else self._longest_later  # noqa: PLR2004 - a minute
        ceiling = min(longest, FIRST_PAUSE_SECONDS * float(2 ** min(self._failures, 10)))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - spreads workers out; no secret depends on it

    def is_over(self) -> None:
        """Count a success: the failures are over."""
        if self._failures:
            logger = self._logger
            logger.info(
                "%s restored after %d failures in %.1f s",
                self._duty,
                self._failures,
                self._clock() - self._since,
                extra={"event": "duty_works_again", "duty": self._duty, "count": self._failures},
            )
            self._failures = 0
