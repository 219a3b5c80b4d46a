"""What a worker tells of itself when it registers: for sweepers, and for people."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.recovery.settings import RecoverySettings


def worker_metadata(
    settings: RecoverySettings,
    *,
    version: str,
    tasks: Iterable[str],
    concurrency: int,
    prefetches: bool,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
) -> Mapping[str, Any]:
    """The metadata of this process. Sweepers read the last six:

    prefetches: True if it claims ahead of its slots; if so, it marks starts as `must_be_marked` says
    beat_interval: seconds; it is not silent before two of them
    suspects: True if it marks the start of a job that has crashed, and runs suspects as their flags say
    on_crash, max_crashes: what holds for tasks that do not say
    policies: what its tasks say; see `own_policies`

    A worker that claims ahead adds `waiting`: claims that have not started; see `worker.claiming.waiting_list`.
    """
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version,
        "tasks": sorted(tasks),
        "concurrency": concurrency,
        "prefetches": prefetches,
        "beat_interval": settings.heartbeat_interval.total_seconds(),
        "suspects": True,
        "on_crash": settings.on_crash,
        "max_crashes": settings.max_crashes,
        "policies": policies or {},
    }
