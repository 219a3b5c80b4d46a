"""`HealthLimits`: the thresholds from which on a check reports something."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from ferryman.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """The thresholds of the checks. Fractions are of 1."""

    sequence_used: float = 0.5
    """The share of a sequence's numbers that is used. Half of it is a notice, 0.9 an error."""
    connections_used: float = 0.8
    notifications_used: float = 0.25
    pinned_for: timedelta = timedelta(minutes=10)
    """How long a transaction may keep vacuum from removing dead rows."""
    pinned_transactions: int = 100_000
    """How many transactions may start meanwhile; ten times as many are an error. For standbys and replication slots no
    time is known: an inactive one is judged by this number alone, an active one by ten times as many."""
    retained_wal: int = 10 * 1024**3
    """Bytes of WAL that a logical replication slot may retain."""
    dead_rows: int = 100_000
    """Dead rows of a table. Ten times as many are a warning if autovacuum has skipped the table for five rounds."""
    unused_queues: int = 1_000
    """Queues without jobs; a notice. Ten times as many queues in total are a warning."""
    unused_tasks: int = 1_000
    silent_for: timedelta = timedelta(minutes=5)
    """How long a registered worker may send no heartbeat."""
    waiting_for: timedelta = timedelta(minutes=2)
    """How long a due job may wait for a worker."""
    locked_for: timedelta = timedelta(hours=4)
    """How long a job may stay locked."""
    failed_for: timedelta = timedelta(days=30)
    """How long ago a job must have failed to be reported as one that no worker deletes."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value <= type(value)():
                raise ConfigurationError(f"{item.name} must be positive; got {value!r}")
