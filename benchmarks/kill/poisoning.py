"""Tests jobs that kill their worker, among many harmless ones: which jobs fail, and after how many deaths.

Nobody else kills here. Each death is caused by a poisonous job, and workers are replaced at once.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.kill.checker import MAX_CRASHES, Breach
from benchmarks.kill.directing import SECONDS_BETWEEN_LOOKS, SECONDS_PER_TURN, Stage, drain
from benchmarks.kill.plan import JobPlan, WorkerPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.history import Line

WORKERS = 6
EXITS = 1_000
"""A poisonous job never gets better."""
OPEN_JOBS_PER_SLOT = 3


def planned_jobs(seed: int, share: float) -> Iterator[JobPlan]:
    """Yield jobs without end, of which this share is poisonous. Each takes long enough to run beside others."""
    dice = random.Random(f"{seed} poison")
    for number in itertools.count(1):
        is_poisonous = dice.random() < share
        yield JobPlan(
            number=number,
            seconds=round(dice.uniform(0.0, 0.3), 4),
            fails=0 if is_poisonous or dice.random() < 0.95 else 1,
            exits=EXITS if is_poisonous else 0,
        )


def run_poison(stage: Stage, *, deaths: int, share: float, concurrency: int, seed: int) -> None:
    """Let `deaths` workers die of poisonous jobs, and let others finish the rest."""
    nursery, numbers = stage.nursery, itertools.count(1)
    producer = stage.start_producer(planned_jobs(seed, share))
    next_look = 0.0
    while nursery.counts.deaths < deaths and not stage.is_stopped:
        while len(nursery.inmates) < WORKERS:
            number = next(numbers)
            # One in three claims ahead.
            nursery.fork(WorkerPlan(number=number, concurrency=concurrency, prefetch=None if number % 3 else 20))
        nursery.reap()
        nursery.note_ready()
        for inmate in nursery.inmates.values():
            inmate.due = float("inf")
        if time.monotonic() >= next_look:
            missing = WORKERS * concurrency * OPEN_JOBS_PER_SLOT - stage.looking.open_jobs()
            producer.allow(producer.allowed + max(0, missing))
            next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        time.sleep(SECONDS_PER_TURN)
    producer.finish()
    poisonous = [job.number for job in itertools.islice(planned_jobs(seed, share), producer.allowed) if job.exits]
    stage.recorder.note("poisonous", numbers=poisonous)
    drain(stage)


def judge_poison(lines: Sequence[Line]) -> tuple[str, list[Breach]]:
    """Judge the result: return a sentence, and the breaches."""
    poisonous = {number for line in lines if line["event"] == "poisonous" for number in line["numbers"]}
    caused = Counter(line["number"] for line in lines if line["event"] == "exiting")
    added = {line["number"] for line in lines if line["event"] == "added"}
    failed = {line["number"] for line in lines if line["event"] == "left"}
    breaches = [
        *(Breach(f"job {number} did no harm and failed", number) for number in sorted(failed - poisonous)),
        *(
            Breach(f"job {number} is poisonous and has not failed", number)
            for number in sorted(poisonous & added - failed)
        ),
        *(
            Breach(f"job {number} killed {count} workers", number)
            for number, count in caused.items()
            if count > MAX_CRASHES
        ),
    ]
    kills = Counter(caused[number] for number in poisonous & added)
    told = ", ".join(f"{count} killed {times}" for times, count in sorted(kills.items()))
    sentence = (
        f"{sum(caused.values()):,} deaths by {len(poisonous & added):,} poisonous jobs among {len(added):,} "
        f"({told}); {len(failed - poisonous)} of the others failed"
    )
    return sentence, breaches
