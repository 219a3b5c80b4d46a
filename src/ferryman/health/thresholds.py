"""From where on something is worth telling."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from ferryman.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """What counts as too much. Fractions are of 1."""

    sequence_used: float = 0.5
    """Numbers of tasks and queues given out. Half of it is a notice, 0.9 an error."""
    connections_used: float = 0.8
    notifications_used: float = 0.25
    pinned_for: timedelta = timedelta(minutes=10)
    """How long a transaction may keep dead rows from being removed."""
    pinned_transactions: int = 100_000
    """How many transactions may begin meanwhile. Ten times as many are an error. Of standbys and replication slots no
    time is known: inactive ones are judged by this number alone, others by ten times as many."""
    retained_wal: int = 10 * 1024**3
    """Bytes of WAL that a logical replication slot may keep."""
    dead_rows: int = 100_000
    """Dead rows of a table. Ten times as many are a warning where autovacuum has not come for five of its rounds."""
    unused_queues: int = 1_000
    """Queues without jobs that are worth a notice. Ten times as many queues in all are a warning."""
    unused_tasks: int = 1_000
    silent_for: timedelta = timedelta(minutes=5)
    """How long a registered worker may give no sign of life."""
    waiting_for: timedelta = timedelta(minutes=2)
    """How long a job that is due may wait for a worker."""
    locked_for: timedelta = timedelta(hours=4)
    """How long a job may stay locked."""
    failed_for: timedelta = timedelta(days=30)
    """How long ago a job must have failed to be told as one that nobody deletes."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value <= type(value)():
                raise ConfigurationError(f"{item.name} must be more than nothing; got {value!r}")
