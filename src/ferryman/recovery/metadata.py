"""What a worker tells of itself when it registers: for sweepers, and for people."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.recovery.settings import RecoverySettings


def worker_metadata(
    settings: RecoverySettings, *, version: str, tasks: Iterable[str], concurrency: int, prefetches: bool
) -> Mapping[str, Any]:
    """The metadata of this process. The last three are read by sweepers:

    prefetches: whether it claims ahead of its slots; if so, it marks starts as `must_be_marked` says
    beat_interval: seconds; nobody may take it for silent before two of them
    on_crash: what it takes for the policy of tasks that do not say
    """
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version,
        "tasks": sorted(tasks),
        "concurrency": concurrency,
        "prefetches": prefetches,
        "beat_interval": settings.heartbeat_interval.total_seconds(),
        "on_crash": settings.on_crash,
    }
