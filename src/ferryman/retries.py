"""Retry policies: how long a job waits after a failure, and what follows a crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, Protocol, TypeAlias

import msgspec

from ferryman.errors import ConfigurationError

OnCrash: TypeAlias = Literal["requeue", "retry", "fail"]
"""The policy for a job whose worker died while it ran.

requeue: its attempt is given back, and it runs again after a delay
retry: the attempt is used up, as by an error, and it runs again if there are more
fail: it fails for good, because what it has done by then must not be done twice
"""
ON_CRASH: tuple[OnCrash, ...] = ("requeue", "retry", "fail")


class RetryPolicy(Protocol):
    """Decides the delay after a failed attempt."""

    def delay(self, attempts: int, error: BaseException) -> timedelta | None:
        """Return the delay after this many attempts; None for Graphile's delay, `exp(least(attempts, 10))` seconds."""


class GraphileBackoff(msgspec.Struct, frozen=True):
    """Graphile's delay: about 3 s, 7 s, 20 s, 55 s, … up to 6 hours. The database computes it."""

    def delay(self, attempts: int, error: BaseException) -> timedelta | None:  # noqa: ARG002
        """Return None: the database computes the delay."""
        return None


class FixedDelay(msgspec.Struct, frozen=True):
    """The same delay after each attempt."""

    seconds: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self.seconds, self.jitter)

    def delay(self, attempts: int, error: BaseException) -> timedelta:  # noqa: ARG002
        """Return the delay after this attempt."""
        return _jittered(self.seconds, self.jitter)


class LinearDelay(msgspec.Struct, frozen=True):
    """A delay that grows by the same step with each attempt, up to a limit."""

    step_seconds: float
    most_seconds: float = 6 * 3600
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self.step_seconds, self.jitter)

    def delay(self, attempts: int, error: BaseException) -> timedelta:  # noqa: ARG002
        """Return the delay after this attempt."""
        return _jittered(min(self.step_seconds * attempts, self.most_seconds), self.jitter)


class CustomDelay(msgspec.Struct, frozen=True):
    """A delay that your function computes; None leaves it to the database."""

    decide: Callable[[int, BaseException], timedelta | None]
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(0, self.jitter)

    def delay(self, attempts: int, error: BaseException) -> timedelta | None:
        """Return the delay after this attempt."""
        decided = checked_delay(self.decide(attempts, error))
        return None if decided is None else _jittered(decided.total_seconds(), self.jitter)


AnyRetryPolicy: TypeAlias = RetryPolicy | Callable[[int, BaseException], timedelta | None]


def as_policy(policy: AnyRetryPolicy) -> RetryPolicy:
    """Make a policy of a bare function."""
    if hasattr(policy, "delay"):
        return policy
    if not callable(policy):
        raise ConfigurationError(f"retry must be a retry policy or a function, not {type(policy).__name__}")
    return CustomDelay(policy)


def checked_delay(delay: timedelta | None) -> timedelta | None:
    """Return the delay of a policy; `TypeError` if it is neither a timedelta nor None."""
    if delay is not None and not isinstance(delay, timedelta):
        raise TypeError(f"a retry policy returns a timedelta or None, not {delay!r}: say timedelta(seconds=…)")
    return delay


def _check(seconds: float, jitter: float) -> None:
    if seconds < 0:
        raise ConfigurationError(f"a retry delay cannot be negative; got {seconds} seconds")
    if not 0 <= jitter <= 1:
        raise ConfigurationError(f"jitter is a part of the delay, between 0 and 1; got {jitter}")


def _jittered(seconds: float, jitter: float) -> timedelta:
    """Return the delay, changed at random by up to `jitter` of it."""
    return timedelta(seconds=max(0.0, seconds) * random.uniform(1 - jitter, 1 + jitter))  # noqa: S311
