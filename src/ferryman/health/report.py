"""The result of the health checks: findings, and the repairs that they offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(Enum):
    """How serious a finding is."""

    OK = "ok"
    """Nothing to do."""
    NOTICE = "notice"
    """Worth knowing; jobs run. Also for checks that this role may not make."""
    WARNING = "warning"
    """Something is lost or slow, or will be."""
    ERROR = "error"
    """Jobs do not run, or soon cannot be added."""

    @property
    def rank(self) -> int:
        """A number that is greater for a worse severity."""
        return list(Severity).index(self)


class Repair(Enum):
    """A repair of a queue's data, made while producers and workers continue."""

    WEDGED_QUEUES = "wedged-queues"
    """Free queues that are locked by a worker that is certainly gone and has no job in them."""
    DANGLING_QUEUES = "dangling-queues"
    """Give jobs whose queue was deleted a queue again, with the old number and a made-up name."""
    DANGLING_TASKS = "dangling-tasks"
    """Give jobs whose task was deleted a task again, with the old number and a made-up name, so that you see them."""
    LEFTOVERS = "leftovers"
    """Delete start marks and reports of progress of claims that are over."""
    UNUSED_QUEUES = "unused-queues"
    """Delete queues that are neither locked nor referred to by any job."""
    UNUSED_TASKS = "unused-tasks"
    """Delete tasks without jobs, except those of registered workers and stored schedules.

    Node and Rust workers that are running do not see new jobs of a deleted task until they restart.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, or one of its results."""

    check: str
    """The name of the check."""
    severity: Severity
    seen: str
    """The observation, in one sentence."""
    meaning: str | None = None
    """The meaning of the observation; None if nothing is wrong."""
    remedies: tuple[str, ...] = ()
    """Commands of Ferryman or SQL statements that fix it, in the order in which to run them."""
    repair: Repair | None = None
    """The repair that `repair_health` can make."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The figures behind the sentence."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """All findings, in the order of the checks."""

    schema: str
    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """The severity of the worst finding."""
        return max((finding.severity for finding in self.findings), key=lambda one: one.rank, default=Severity.OK)

    @property
    def is_healthy(self) -> bool:
        """True if no finding is worse than a notice."""
        return self.severity.rank <= Severity.NOTICE.rank

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs that `repair_health` could make, each once."""
        return tuple(dict.fromkeys(finding.repair for finding in self.findings if finding.repair is not None))

    def of(self, check: str) -> tuple[Finding, ...]:
        """Return the findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of one repair."""

    repair: Repair
    number: int
    """How many rows were repaired; 0 if nothing was left to repair."""
    names: tuple[str, ...] = ()
    """The names of the queues or tasks."""
