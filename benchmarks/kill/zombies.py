"""Tests workers that freeze while running jobs, are swept, and thaw after others have taken their jobs."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from benchmarks.kill.directing import SECONDS_BETWEEN_LOOKS, SECONDS_PER_TURN, drain, thaw_swept
from benchmarks.kill.plan import QUEUES, JobPlan, WorkerPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kill.directing import Stage

AT_ONCE = 10
JOBS_PER_ROUND = 5
SECONDS_AFTER_THAW = 2.0
"""Mostly long enough to lose, and to claim again, before it is told to end. Who alone runs a task gets all it needs."""
SECONDS_PER_GROUP = 120.0
HELPERS = 2


def run_zombies(stage: Stage, *, rounds: int, seed: int) -> None:
    """Freeze `rounds` workers, some at a time."""
    dice = random.Random(f"{seed} zombies")
    numbers = iter(range(1, 10_000_000))
    plans = [_plan_round(dice, number, numbers) for number in range(1, rounds + 1)]
    producer = stage.start_producer(job for _, jobs in plans for job in jobs)
    for helper in range(HELPERS):
        stage.nursery.fork(WorkerPlan(number=rounds + helper + 1, prefetch=4 if helper else None))
    for start in range(0, rounds, AT_ONCE):
        if stage.is_stopped:
            break
        group = plans[start : start + AT_ONCE]
        producer.allow(producer.allowed + sum(len(jobs) for _, jobs in group))
        _freeze_and_thaw(stage, [worker for worker, _ in group])
        if start // 100 < (start + AT_ONCE) // 100:
            stage.say(f"{start + AT_ONCE} of {rounds} zombies")
    producer.finish()
    drain(stage, ("on_loop", *(_own(number) for number in range(1, rounds + 1))))


def _plan_round(dice: random.Random, number: int, numbers: Iterator[int]) -> tuple[WorkerPlan, list[JobPlan]]:
    """Plan a worker that alone runs a task, and gets its own jobs back; or one that shares its task with helpers.

    One of its jobs freezes it, while others run, wait in its local queue, and hold named queues.
    """
    own = _own(number)
    is_alone = dice.random() < 0.5
    worker = WorkerPlan(
        number=number,
        concurrency=dice.choice([2, 3, 5]),
        prefetch=dice.choice([None, None, 3]),
        gathers=dice.choice([0.0, 0.3]),
        tasks=(own,) if is_alone else (own, "on_loop"),
        fault="freeze",
    )
    jobs = [
        JobPlan(
            number=next(numbers),
            task=own if is_alone or place == 0 else "on_loop",
            queue=f"{dice.choice(QUEUES)} of {number}" if dice.random() < 0.6 else None,
            seconds=round(dice.uniform(0.0, 0.3), 3),
            stops=place == 0,
        )
        for place in range(JOBS_PER_ROUND)
    ]
    return worker, jobs


def _own(number: int) -> str:
    return f"own {number}"


def _is_needed(worker: WorkerPlan, unfinished: set[str]) -> bool:
    """True if jobs are left that only this worker runs: it must claim again those that it has lost."""
    return worker.tasks == (_own(worker.number),) and _own(worker.number) in unfinished


def _freeze_and_thaw(stage: Stage, workers: list[WorkerPlan]) -> None:
    nursery = stage.nursery
    waiting = {nursery.fork(worker).pid for worker in workers}
    deadline, next_look = time.monotonic() + SECONDS_PER_GROUP, 0.0
    thawed: dict[int, float] = {}
    unfinished: set[str] = set()
    while (waiting or thawed) and time.monotonic() < deadline:
        for inmate in nursery.reap():
            nursery.counts.freezes += 1
            inmate.is_awaiting_sweep = True
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            for inmate in thaw_swept(stage):
                waiting.discard(inmate.pid)
                thawed[inmate.pid] = time.monotonic() + SECONDS_AFTER_THAW
            unfinished = stage.looking.open_tasks()
        for pid, due in [*thawed.items()]:
            if pid not in nursery.inmates:
                del thawed[pid]
            elif (
                time.monotonic() >= due
                and not nursery.inmates[pid].is_harmed
                and not _is_needed(nursery.inmates[pid].plan, unfinished)
            ):
                nursery.inmates[pid].is_harmed = True
                nursery.terminate(nursery.inmates[pid])
        time.sleep(SECONDS_PER_TURN)
    for pid in waiting:
        stage.recorder.note("did not end", of=nursery.inmates[pid].plan.number if pid in nursery.inmates else -1)
