"""Asking one check, and sweeping."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman import SweepStaleWorkersOptions

if TYPE_CHECKING:
    from ferryman import Finding, HealthLimits, SyncClient


A_MOMENT = timedelta(milliseconds=1)
"""Nobody can have been silent for longer than the server has been up, and that of the tests is young."""


def sweep(client: SyncClient) -> None:
    """Give back what silent workers hold."""
    client.sweep_stale_workers(SweepStaleWorkersOptions(sweep_threshold=A_MOMENT))


def look(client: SyncClient, check: str, limits: HealthLimits | None = None) -> tuple[Finding, ...]:
    """What this check tells."""
    return client.check_health(limits=limits).of(check)


def one(client: SyncClient, check: str, limits: HealthLimits | None = None) -> Finding:
    """The only thing that this check tells."""
    (finding,) = look(client, check, limits)
    return finding
