"""Runs a plan: keeps a number of workers running, kills them as planned, has jobs added, and waits for their end."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kill.looking import Looking
from benchmarks.kill.nursery import Nursery
from benchmarks.kill.plan import JOBS_PER_KILL, JobPlan, WorkerPlan, planned_jobs, planned_workers
from benchmarks.kill.producing import produce
from benchmarks.kill.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from benchmarks.kill.nursery import Inmate

WORKERS = 20
MOST_OPEN_JOBS = 300
"""Beyond this no jobs are added, so that most of the time there is a worker for each."""
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_PER_TURN = 0.005
LONGEST_FREEZE_SECONDS = 30.0
SECONDS_TO_HANG_UP = 60.0
SECONDS_WITHOUT_PROGRESS = 120.0
"""Beyond this, what is left will never be done."""
FINISHER_NUMBERS = 10_000_000
FINISHERS = 3
OWN_NUMBER = 0
"""Of the process that directs."""


@dataclass(slots=True)
class Stage:
    """The database, the history and the processes of a run."""

    dsn: str
    folder: Path
    recorder: Recorder
    nursery: Nursery
    looking: Looking
    say: Callable[[str], None]
    is_stopped: bool = False
    """Whether somebody pressed Ctrl-C: then the run ends early, but in order."""

    @classmethod
    def set_up(cls, dsn: str, folder: Path, say: Callable[[str], None]) -> Stage:
        recorder = Recorder(folder, OWN_NUMBER)
        return cls(dsn, folder, recorder, Nursery(dsn, folder, recorder), Looking(dsn), say)

    def start_producer(self, jobs: Iterable[JobPlan]) -> Producer:
        """Fork the process that adds jobs."""
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(writing)
            produce(jobs, self.dsn, Recorder(self.folder, OWN_NUMBER), reading)
        os.close(reading)
        return Producer(writing)


class Producer:
    """The process that adds jobs, as the directing process sees it."""

    def __init__(self, allowances: int) -> None:
        self._allowances = allowances
        self.allowed = 0

    def allow(self, total: int) -> None:
        """Let the producer add jobs until it has added `total`."""
        if total > self.allowed:
            os.write(self._allowances, b"%d\n" % (total - self.allowed))
            self.allowed = total

    def finish(self) -> None:
        os.close(self._allowances)


def run_kills(stage: Stage, *, kills: int, seed: int) -> None:
    """Kill `kills` workers while they run the jobs of the plan."""
    workers, nursery = planned_workers(seed), stage.nursery
    producer = stage.start_producer(planned_jobs(seed))
    next_look, told = 0.0, 0
    while nursery.counts.deaths < kills and not stage.is_stopped:
        keep_harming(nursery, workers, WORKERS)
        if time.monotonic() >= next_look:
            thaw_swept(stage)
            if stage.looking.open_jobs() < MOST_OPEN_JOBS:
                producer.allow(min(kills, nursery.counts.deaths + WORKERS) * JOBS_PER_KILL)
            next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            if nursery.counts.deaths // 500 > told:
                told = nursery.counts.deaths // 500
                stage.say(f"{nursery.counts.deaths} of {kills} deaths")
        time.sleep(SECONDS_PER_TURN)
    if not stage.is_stopped:
        producer.allow(kills * JOBS_PER_KILL)
    producer.finish()
    drain(stage)


def keep_harming(nursery: Nursery, workers: Iterator[WorkerPlan], most: int) -> None:
    """Replace workers that have ended, so that there are `most`, and kill or freeze each as planned."""
    while len(nursery.inmates) < most:
        nursery.fork(next(workers))
    nursery.reap()
    nursery.note_ready()
    for inmate in [*nursery.inmates.values()]:
        if time.monotonic() >= inmate.due:
            _befall(nursery, inmate)


def _befall(nursery: Nursery, inmate: Inmate) -> None:
    """Do to a worker what the plan has next: its fault first, such as a freeze, later a thaw or a kill."""
    is_first, inmate.is_harmed = not inmate.is_harmed, True
    match inmate.plan.fault:
        case "terminate" if is_first:
            nursery.terminate(inmate)
            pause = LONGEST_FREEZE_SECONDS
        case "freeze" if is_first:
            nursery.freeze(inmate)
            nursery.counts.freezes += 1
            inmate.is_awaiting_sweep = True
            pause = LONGEST_FREEZE_SECONDS
        case "pause" if is_first:
            nursery.freeze(inmate)
            nursery.counts.pauses += 1
            pause = inmate.plan.rest
        case "freeze" | "pause" if inmate.is_frozen:
            nursery.thaw(inmate)
            pause = inmate.plan.rest
        case _:
            nursery.kill(inmate)
            pause = LONGEST_FREEZE_SECONDS
    inmate.due = time.monotonic() + pause


def thaw_swept(stage: Stage) -> list[Inmate]:
    """Thaw the frozen workers that were swept."""
    frozen = [inmate for inmate in stage.nursery.inmates.values() if inmate.is_awaiting_sweep]
    if not frozen:
        return []
    registered = stage.looking.registered(inmate.pid for inmate in frozen)
    swept = [inmate for inmate in frozen if inmate.pid not in registered]
    for inmate in swept:
        stage.nursery.thaw(inmate)
        inmate.due = time.monotonic() + inmate.plan.rest
    return swept


def thaw_all(nursery: Nursery) -> None:
    """Thaw every frozen worker, also those that were not swept yet."""
    for inmate in nursery.inmates.values():
        if inmate.is_frozen:
            nursery.thaw(inmate)


def drain(stage: Stage, tasks: tuple[str, ...] | None = None) -> None:
    """Let workers that are left unharmed finish everything, then record what the database holds at the end."""
    nursery = stage.nursery
    thaw_all(nursery)
    number, next_look, left = FINISHER_NUMBERS + nursery.counts.born, 0.0, -1
    finishers: set[int] = set()
    deadline = time.monotonic() + SECONDS_WITHOUT_PROGRESS
    while time.monotonic() < deadline:
        nursery.reap()
        while len(finishers & {*nursery.inmates}) < FINISHERS:
            number += 1
            prefetch = 5 if number % 2 else None
            finisher = WorkerPlan(number=number, has_children=True, prefetch=prefetch, tasks=tasks)
            finishers.add(nursery.fork(finisher).pid)
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            open_jobs = stage.looking.open_jobs()
            if not open_jobs and not stage.looking.locked_queues() and _are_dead_swept(stage):
                break
            if open_jobs != left:
                left, deadline = open_jobs, time.monotonic() + SECONDS_WITHOUT_PROGRESS
        time.sleep(SECONDS_PER_TURN)
    _end_workers(stage)
    write_down_the_end(stage)


def _are_dead_swept(stage: Stage) -> bool:
    """True if only running workers are registered: once all are told to end, no other would sweep the dead."""
    return len(stage.looking.workers_left()) <= len(stage.looking.registered(stage.nursery.inmates))


def _end_workers(stage: Stage) -> None:
    """Tell all workers to end, thawed ones too, so that each records the outcomes of its jobs."""
    nursery = stage.nursery
    for inmate in nursery.inmates.values():
        nursery.terminate(inmate)
    deadline = time.monotonic() + SECONDS_WITHOUT_PROGRESS
    while nursery.inmates and time.monotonic() < deadline:
        for stopped in nursery.reap():
            nursery.thaw(stopped)
        time.sleep(SECONDS_PER_TURN)
    for inmate in nursery.inmates.values():
        stage.recorder.note("did not end", of=inmate.plan.number)
    nursery.end()


def write_down_the_end(stage: Stage) -> None:
    """Add to the history what only the database knows."""
    looking, note = stage.looking, stage.recorder.note
    for crash in looking.crashes():
        note("crash", **crash)
    for job in looking.jobs_left():
        note("left", **job)
    for queue in looking.locked_queues():
        note("locked", queue=queue)
    deadline = time.monotonic() + SECONDS_TO_HANG_UP
    while (sessions := looking.sessions_left()) and time.monotonic() < deadline:
        time.sleep(SECONDS_PER_TURN)
    note("over", workers=looking.workers_left(), sessions=sessions)
