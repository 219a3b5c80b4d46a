"""A clock that measures how much time has passed, including time in which the machine was suspended.

Workers use it to judge how long another worker, or the database, has not been heard from.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _counts_suspension() -> Callable[[], float]:
    # time.monotonic() stands still during suspension on Linux and macOS; a resumed worker would trust an old heartbeat.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


now: Callable[[], float] = _counts_suspension()
"""Return the time in seconds since an arbitrary moment. It never goes back.

Compare it only with itself, within one process.
"""
