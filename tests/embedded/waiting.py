"""Waiting for a fact instead of for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

Fact = TypeVar("Fact")


def eventually(find: Callable[[], Fact | None], *, within: float = 60, every: float = 0.02) -> Fact:
    """Ask until the answer is truthy, and give it back."""
    deadline = time.monotonic() + within
    while not (fact := find()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {find.__doc__ or find}")
        time.sleep(every)
    return fact
