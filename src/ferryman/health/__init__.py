"""What ails a queue or its database: checks that only look, and the values in which they tell what they saw."""

from ferryman.health.report import Finding, HealthReport, Repair, Repaired, Severity
from ferryman.health.thresholds import HealthLimits
from ferryman.health.tuning import Tuned, Tuning

__all__ = ["Finding", "HealthLimits", "HealthReport", "Repair", "Repaired", "Severity", "Tuned", "Tuning"]
