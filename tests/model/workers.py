"""Who takes part in histories, and the tasks that they know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferryman import App
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG
from ferryman.retries import LinearDelay
from ferryman.worker.identity import Identity
from ferryman.worker.running.start_marks import StartMarks
from tests.model.model_database import Line
from tests.model.sweeping import Policy
from tests.support.claimers import claimer_alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.retries import OnCrash
    from ferryman.worker.claiming.claims import Claim
    from tests.model.model_database import ModelDatabase

app = App()


@app.task
def plain() -> None: ...


@app.task(on_crash="requeue")
def again() -> None: ...


@app.task(on_crash="retry")
def retried() -> None: ...


@app.task(on_crash="retry", retry=LinearDelay(7))
def retried_later() -> None: ...


@app.task(on_crash="fail")
def once() -> None: ...


POLICIES = {
    "plain": Policy(),
    "again": Policy("requeue"),
    "retried": Policy("retry"),
    "retried_later": Policy("retry", 7.0),
    "once": Policy("fail"),
}
TASK_SETS = [(*POLICIES,), ("plain", "again"), ("retried", "retried_later", "once")]


@dataclass(eq=False)
class Held:
    """A claim as its worker knows it, and whether the job has really begun."""

    claim: Claim
    task: str
    queue: str | None
    has_started: bool

    @property
    def fence(self) -> tuple[str, int, int]:
        return self.claim.worker_id, self.claim.job_id, self.claim.token


class Worker:
    """A worker as it knows itself: it believes that it holds what it claimed.

    unheard_as: the names in which it may have claimed what it never heard of
    """

    def __init__(
        self,
        model_database: ModelDatabase,
        kind: str,
        tasks: Mapping[int, str],
        on_crash: OnCrash,
        *,
        avoids_resilient: bool = False,
    ) -> None:
        self.kind = kind
        self.tasks = (*tasks.values(),)
        self.on_crash: OnCrash = on_crash
        self.avoids_resilient = avoids_resilient
        self.identity = Identity()
        self.line = Line(model_database)
        self.marks = StartMarks(self.line, on_crash if kind == "ahead" else None)
        alone = claimer_alone(
            self.line,
            self.identity,
            self.tasks,
            forbidden_flags=self.forbidden_flags,
            held=lambda: [held.claim for held in self.held],
            clock=float,  # stands still: the tasks keep their numbers, and need not be registered again
        )
        self.claimer, self.lost = alone.claimer, alone.lost
        alone.tasks.learn(tasks)
        self.session_key: int | None = None
        self.held: list[Held] = []
        self.newest_token = 0
        self.unheard_as: set[str] = set()
        self.is_frozen = False

    @property
    def id(self) -> str:
        return self.identity.id

    @property
    def registers(self) -> bool:
        return self.kind != "node"

    @property
    def prefetches(self) -> bool:
        return self.kind == "ahead"

    @property
    def is_ours(self) -> bool:
        return self.kind in {"ahead", "direct"}

    @property
    def forbidden_flags(self) -> Sequence[str]:
        return [INFRASTRUCTURE_RESILIENT_FLAG] if self.avoids_resilient else []
