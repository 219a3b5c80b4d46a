"""Decides, from a seed, which jobs are added, which workers run, and how each of them ends.

The plan is the same for the same seed. What comes of it is not: that is up to the machine, and to Ferryman.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Fault: TypeAlias = Literal["kill", "freeze", "pause", "terminate", "none"]

JOBS_PER_KILL = 6
QUEUES = [f"queue {number}" for number in range(6)]
KEYS = [f"key {number}" for number in range(8)]
TASKS = {"on_loop": 50, "in_thread": 18, "batch": 10, "retried": 10, "failed": 6, "in_child": 1}
"""How often which task is drawn. `retried` and `failed` name what a crash does to their jobs; others are requeued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job to add, and what its handler does.

    number: what it is known by, outside PostgreSQL too
    seconds: how long its handler takes
    fails: how many attempts raise
    exits: how many runs end the process that they run in
    stops: whether its first run freezes its process
    delay: seconds until it is due
    is_undone: whether the transaction that adds it is rolled back
    """

    number: int
    task: str = "on_loop"
    queue: str | None = None
    key: str | None = None
    seconds: float = 0.0
    fails: int = 0
    exits: int = 0
    stops: bool = False
    max_attempts: int = 25
    delay: float = 0.0
    is_undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """A worker process, and what is done to it.

    prefetch: the size of its local queue; None: it claims what it can start
    has_children: whether it runs the tasks that need child processes, which are slow to start
    gathers: seconds for which outcomes are gathered before they are written
    fault: what is done to it `after` so many seconds, from when it is ready or, `is_early`, from its birth
    rest: how long it lives on after a freeze or a pause, before it is killed
    tasks: the only tasks that it runs; None: all
    """

    number: int
    prefetch: int | None = None
    concurrency: int = 3
    has_children: bool = False
    gathers: float = 0.0
    fault: Fault = "none"
    after: float = 0.0
    is_early: bool = False
    rest: float = 0.0
    tasks: tuple[str, ...] | None = None


def planned_jobs(seed: int) -> Iterator[JobPlan]:
    """Yield jobs without end."""
    dice = random.Random(f"{seed} jobs")
    return (_draw_job(dice, number) for number in itertools.count(1))


def planned_workers(seed: int) -> Iterator[WorkerPlan]:
    """Yield workers without end, each with what is done to it."""
    dice = random.Random(f"{seed} workers")
    return (_draw_worker(dice, number) for number in itertools.count(1))


def digest(seed: int, kills: int) -> str:
    """Return a fingerprint of the plan for this number of kills."""
    taken = hashlib.sha256()
    for job in itertools.islice(planned_jobs(seed), kills * JOBS_PER_KILL):
        taken.update(repr(astuple(job)).encode())
    for worker in itertools.islice(planned_workers(seed), kills):
        taken.update(repr(astuple(worker)).encode())
    return taken.hexdigest()[:16]


def _draw_job(dice: random.Random, number: int) -> JobPlan:
    [task] = dice.choices([*TASKS], [*TASKS.values()])
    is_keyed = task in {"on_loop", "in_thread", "retried"} and dice.random() < 0.2
    exits = _exits(dice) if task in {"on_loop", "in_thread", "retried", "in_child"} and dice.random() < 0.008 else 0
    fails = dice.choice([1, 1, 2, 3]) if dice.random() < 0.12 else 0
    return JobPlan(
        number=number,
        task=task,
        queue=dice.choice(QUEUES) if dice.random() < 0.35 else None,
        key=dice.choice(KEYS) if is_keyed else None,
        seconds=round(dice.uniform(0.2, 0.8) if dice.random() < 0.12 else dice.uniform(0.0, 0.05), 4),
        fails=fails,
        exits=exits,
        # A few run out of attempts.
        max_attempts=dice.choice([1, 2, 3, 25]) if fails else 25,
        delay=round(dice.uniform(0.05, 2.0), 3) if dice.random() < 0.15 else 0.0,
        is_undone=not is_keyed and dice.random() < 0.02,
    )


def _exits(dice: random.Random) -> int:
    """Draw how many runs of a job end their process: a few, or all of them."""
    return dice.choice([1, 1, 2, 9])


def _draw_worker(dice: random.Random, number: int) -> WorkerPlan:
    # While it starts, young, in its prime, old: recovery itself must be hit, and must also get somewhere.
    is_early = dice.random() < 0.15
    least, most = (0.0, 0.6) if is_early else dice.choices([(0.0, 0.5), (0.5, 2.0), (2.0, 12.0)], [60, 30, 10])[0]
    faults: list[Fault] = ["kill", "freeze", "pause", "terminate"]
    return WorkerPlan(
        number=number,
        prefetch=dice.choice([1, 4, 10]) if dice.random() < 0.4 else None,
        concurrency=dice.choice([1, 2, 3, 5]),
        has_children=dice.random() < 0.05,
        gathers=dice.choice([0.0, 0.0, 0.0, 0.1]),
        fault=dice.choices(faults, [88, 4, 4, 4])[0],
        after=round(dice.uniform(least, most), 4),
        is_early=is_early,
        rest=round(dice.uniform(0.0, 1.0), 4),
    )
