"""Decides, from a seed, which jobs are added and how the workers end."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.kill import producing
from benchmarks.kill.plan import QUEUES, JobPlan, planned_workers
from ferryman import RawJobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kill.plan import Fault, WorkerPlan

WORKERS = 10
UNHARMED = 3
FOR_EVER = 1e9
KEYS = [f"key {number}" for number in range(400)]
HOT_KEYS = KEYS[::10]
"""Those of single jobs; calls with many jobs have all keys."""
TASKS = {"on_loop": 30, "in_transaction": 25, "timed": 15, "in_thread": 10, "retried": 10, "failed": 4}
SECONDS = {(0.0, 0.05): 60, (0.05, 0.4): 30, (0.4, 2.0): 10}
"""How long handlers take, and how often."""
FAULTS: dict[Fault, int] = {"kill": 50, "freeze": 30, "pause": 10, "terminate": 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosJob(JobPlan):
    """A job to add.

    snoozes: how many runs that do not fail ask to run later
    """

    snoozes: int = 0

    @property
    def raw(self) -> RawJobSpec:
        """Return what a client adds."""
        payload: dict[str, Any] = producing.payload(self)
        return RawJobSpec(self.task, {**payload, "snoozes": self.snoozes}, producing.spec(self))


def draw_job(dice: random.Random, number: int, *, key: str | None) -> ChaosJob:
    """Draw one job."""
    [task] = dice.choices([*TASKS], [*TASKS.values()])
    fails = dice.choice([1, 1, 2, 3]) if dice.random() < 0.2 else 0
    return ChaosJob(
        number=number,
        task=task,
        queue=dice.choice(QUEUES) if dice.random() < 0.35 else None,
        key=key,
        seconds=round(dice.uniform(*dice.choices([*SECONDS], [*SECONDS.values()])[0]) * _pace(task), 4),
        fails=fails,
        snoozes=1 if dice.random() < 0.1 else 0,
        max_attempts=dice.choice([1, 2, 3, 25]) if fails else 25,
        delay=round(dice.uniform(0.05, 2.0), 3) if dice.random() < 0.15 else 0.0,
    )


def _pace(task: str) -> float:
    """Return a factor for a job's duration: a timed job ends before its timeout, unless it is meant to fail."""
    return 0.1 if task == "timed" else 1.0


def fleet(seed: int) -> Iterator[WorkerPlan]:
    """Yield workers without end. They run longer than in the kill proof, and freeze more often.

    Nothing happens to the first few: what stays locked for as long as its worker lives must be there at the end.
    """
    dice = random.Random(f"{seed} fleet")
    workers = planned_workers(seed)
    for plan in itertools.islice(workers, UNHARMED):
        yield replace(plan, after=FOR_EVER, is_early=False, has_children=False)
    for plan in workers:
        after = round(dice.uniform(0.0, 1.5) if plan.is_early else dice.uniform(0.5, 8.0), 4)
        [fault] = dice.choices([*FAULTS], [*FAULTS.values()])
        yield replace(plan, fault=fault, after=after, rest=round(dice.uniform(0.5, 4.0), 4), has_children=False)
