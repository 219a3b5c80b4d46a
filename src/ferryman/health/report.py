"""What a look at the health of a queue has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(Enum):
    """How bad it is."""

    OK = "ok"
    """Nothing to do."""
    NOTICE = "notice"
    """Worth knowing; work goes on. Also what could not be looked at."""
    WARNING = "warning"
    """Something is lost or slow, or will be."""
    ERROR = "error"
    """Jobs do not run, or soon cannot be added."""

    @property
    def rank(self) -> int:
        """The greater, the worse."""
        return list(Severity).index(self)


class Repair(Enum):
    """What can be mended in the data of a queue, while producers and workers go on."""

    WEDGED_QUEUES = "wedged-queues"
    """Free queues that are locked by a worker that is certainly gone and has no job in them."""
    DANGLING_QUEUES = "dangling-queues"
    """Give jobs whose queue was deleted a queue again, with the old number and a made-up name."""
    DANGLING_TASKS = "dangling-tasks"
    """Give jobs whose task was deleted a task again, with the old number and a made-up name, so that they are seen."""
    LEFTOVERS = "leftovers"
    """Delete start marks and reports of progress of claims that are over."""
    UNUSED_QUEUES = "unused-queues"
    """Delete queues that are neither locked nor referred to by any job."""
    UNUSED_TASKS = "unused-tasks"
    """Delete tasks without jobs, but for those of registered workers and stored schedules.

    Node and Rust workers that are running do not see new jobs of a deleted task until they restart.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """Which check tells it."""
    severity: Severity
    seen: str
    """What was seen, in a sentence."""
    meaning: str | None = None
    """What it means; None when all is well."""
    remedies: tuple[str, ...] = ()
    """Commands of Ferryman's or SQL statements that mend it, in the order in which to run them."""
    repair: Repair | None = None
    """What `repair_health` can do about it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The figures behind the sentence."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Everything that was looked at, in the order of the checks."""

    schema: str
    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """That of the worst finding."""
        return max((finding.severity for finding in self.findings), key=lambda one: one.rank, default=Severity.OK)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is worse than a notice."""
        return self.severity.rank <= Severity.NOTICE.rank

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What `repair_health` could mend, each once."""
        return tuple(dict.fromkeys(finding.repair for finding in self.findings if finding.repair is not None))

    def of(self, check: str) -> tuple[Finding, ...]:
        """The findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What one repair did."""

    repair: Repair
    number: int
    """How many rows were mended; 0 when there was nothing left to mend."""
    names: tuple[str, ...] = ()
    """Those of the queues or tasks."""
