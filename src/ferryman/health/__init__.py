"""Health checks of a queue and its database, which change nothing, and `tuning`, which alters an index."""

from ferryman.health.report import Finding, HealthReport, Repair, Repaired, Severity
from ferryman.health.thresholds import HealthLimits
from ferryman.health.tuning import Tuned, Tuning

__all__ = ["Finding", "HealthLimits", "HealthReport", "Repair", "Repaired", "Severity", "Tuned", "Tuning"]
