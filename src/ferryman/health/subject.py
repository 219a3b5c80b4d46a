"""The queue that is checked, with the thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.health.thresholds import HealthLimits


@dataclass(frozen=True, slots=True)
class Subject:
    """A queue to check, and the thresholds."""

    schema: SchemaName
    limits: HealthLimits

    @property
    def silent_for(self) -> float:
        """Seconds after which a worker is silent."""
        return self.limits.silent_for.total_seconds()

    @property
    def waiting_for(self) -> float:
        """Seconds after which a due job has waited too long."""
        return self.limits.waiting_for.total_seconds()

    @property
    def locked_for(self) -> float:
        """Seconds after which a lock is too old."""
        return self.limits.locked_for.total_seconds()
