"""When an operation may simply be tried again."""

from __future__ import annotations

import random

from ferryman.database.failures import sqlstate_of

ATTEMPTS = 5
_ROLLED_BACK = {"40001", "40P01"}
"""Serialisation failure and deadlock: PostgreSQL has undone everything, so nothing happens twice."""


def should_try_again(error: Exception, attempt: int) -> bool:
    """True if PostgreSQL has undone everything, and it was not tried too often."""
    return attempt < ATTEMPTS and sqlstate_of(error) in _ROLLED_BACK


def pause_before(attempt: int) -> float:
    """Seconds to wait, jittered so that two who met once do not meet again."""
    return random.uniform(0.01, 0.02) * float(2**attempt)  # noqa: S311 - no secret depends on it
