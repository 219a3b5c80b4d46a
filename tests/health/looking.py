"""Asking one check, and sweeping."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman import SweepStaleWorkersOptions

if TYPE_CHECKING:
    from ferryman import Finding, HealthLimits, SyncClient


A_MOMENT = timedelta(milliseconds=1)
"""No worker can be silent for longer than the server has been up, and the tests' server started just now."""


def sweep(client: SyncClient) -> None:
    """Give back what silent workers hold."""
    client.sweep_stale_workers(SweepStaleWorkersOptions(sweep_threshold=A_MOMENT))


def look(client: SyncClient, check: str, limits: HealthLimits | None = None) -> tuple[Finding, ...]:
    """The findings of this check."""
    return client.check_health(limits=limits).of(check)


def one(client: SyncClient, check: str, limits: HealthLimits | None = None) -> Finding:
    """The only finding of this check."""
    (finding,) = look(client, check, limits)
    return finding
