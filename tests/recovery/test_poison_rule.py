"""Workers, neighbours, kills and random poisonous jobs: who fails, and after how many deaths.

The decisions are the real ones: `decide` about each job of a dead worker, and `Suspects` about what a worker may hold.
The database is a dictionary, and a step is whatever comes next.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferryman.recovery.crashes import (
    ALONE_FLAG,
    CRASHED_FLAG,
    SUSPECT_FLAG,
    CrashFacts,
    CrashRules,
    DeadWorker,
    Suspicion,
    decide,
)
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.running.suspects import Suspects

FLAGS: dict[Suspicion, tuple[str, ...]] = {
    "none": (),
    "crashed": (CRASHED_FLAG,),
    "suspect": (CRASHED_FLAG, SUSPECT_FLAG),
    "alone": (CRASHED_FLAG, SUSPECT_FLAG, ALONE_FLAG),
}
MOST_STEPS = 20_000


@dataclass(eq=False)
class Job:
    """A job, and its fate."""

    id: int
    is_poisonous: bool
    suspicion: Suspicion = "none"
    crashes: int = 0
    end: str | None = None
    owner: Worker | None = None


@dataclass(eq=False)
class Worker:
    """A worker process.

    waiting: claims that have not started; listed: those of them that its row names
    """

    world: World
    id: str
    prefetches: bool
    waiting: list[Claim] = field(default_factory=list)
    listed: set[Claim] = field(default_factory=set)
    running: dict[Claim, bool] = field(default_factory=dict)
    """Whether its start was marked."""

    def __post_init__(self) -> None:
        self.suspects = Suspects(
            slots=self.world.concurrency,
            is_held=lambda claim: claim in self.running or claim in self.waiting,
            is_alone=lambda: not self.running,
            give_back_waiting=self._give_back_waiting,
            give_back=self._give_back,
            is_stopping=lambda: False,
        )

    def claim(self) -> None:
        if self.suspects.wants_room:
            return
        most = self.world.concurrency * (3 if self.prefetches else 1) - len(self.running) - len(self.waiting)
        forbidden = {*self.suspects.forbidden_flags()}
        free = [job for job in self.world.free() if not forbidden.intersection(FLAGS[job.suspicion])]
        claims = [self._claimed(job) for job in free[: max(0, most)]]
        self.waiting += self.suspects.admit(claims)
        if not self.prefetches:
            self.start_all()

    def start_all(self) -> None:
        while self.waiting and len(self.running) < self.world.concurrency:
            if self.waiting[0].runs_alone and self.running:
                return
            claim = self.waiting.pop(0)
            self.running[claim] = bool(claim.crash_flags) or claim in self.listed

    def tell_what_waits(self) -> None:
        if self.prefetches:
            self.listed = {*self.waiting}

    def end(self, claim: Claim) -> None:
        """An ordinary end."""
        job = self.world.jobs[claim.job_id]
        del self.running[claim]
        job.owner, job.suspicion, job.crashes = None, "none", 0
        job.end = "completed" if self.world.dice.random() < 0.8 else None

    def _claimed(self, job: Job) -> Claim:
        job.owner = self
        return Claim(job.id, 1, "{}", None, 0, self.id, (), 0, crash_flags=FLAGS[job.suspicion])

    def _give_back(self, claim: Claim) -> None:
        self.world.jobs[claim.job_id].owner = None

    def _give_back_waiting(self) -> None:
        for claim in self.waiting:
            self._give_back(claim)
        self.waiting.clear()


@dataclass
class World:
    """All of them."""

    dice: random.Random
    concurrency: int
    max_crashes: int | None
    jobs: dict[int, Job]
    workers: list[Worker] = field(default_factory=list)
    born: int = 0
    caused: Counter[int] = field(default_factory=Counter)
    """Deaths by the poisonous job that caused them."""
    suffered: Counter[int] = field(default_factory=Counter)
    """Deaths from outside by the job that ran."""
    alone_at_last: dict[int, bool] = field(default_factory=dict)

    def free(self) -> list[Job]:
        found = [job for job in self.jobs.values() if job.end is None and job.owner is None]
        self.dice.shuffle(found)
        return found

    def hire(self, prefetching: float) -> None:
        self.born += 1
        self.workers.append(Worker(self, f"worker {self.born}", prefetches=self.dice.random() < prefetching))

    def die(self, worker: Worker, killer: Claim | None) -> None:
        if killer is not None:
            self.caused[killer.job_id] += 1
        self.workers.remove(worker)
        rules = CrashRules(recovery_delay=0, on_crash="requeue", max_crashes=self.max_crashes, crash_window=3600)
        dead = DeadWorker(worker.id, "session lost", 0, True, worker.prefetches, "requeue")
        for claim in [*worker.running, *worker.waiting]:
            job = self.jobs[claim.job_id]
            is_marked = worker.running.get(claim, False)
            facts = CrashFacts(
                job_id=job.id, worker_id=worker.id, token=0, task_identifier="task", attempts=1, is_superseded=False,
                suspicion=job.suspicion, is_marked=is_marked, is_waiting=claim in worker.listed, isolates=True,
                own_policies=True, policy=None, own_max_crashes=None, crashes=job.crashes, places=None,
            )  # fmt: skip
            decision = decide(facts, dead, rules)
            assert decision is not None
            if decision.started is not None and worker.prefetches:
                assert decision.started == (claim in worker.running), "a sweeper must not be wrong about a start"
            job.owner = None
            if decision.started is not False:
                job.crashes += 1
            if decision.suspicion is not None:
                job.suspicion = decision.suspicion
            if killer is None and claim in worker.running:
                self.suffered[job.id] += 1
            if decision.effect == "fail":
                job.end = decision.word
                self.alone_at_last[job.id] = len(worker.running) == 1

    def step(self, prefetching: float, outside: float) -> None:
        if len(self.workers) < 2:
            self.hire(prefetching)
        worker = self.dice.choice(self.workers)
        act = self.dice.random()
        if act < 0.35:
            worker.claim()
        elif act < 0.45:
            worker.tell_what_waits()
        elif act < 0.65:
            worker.start_all()
        elif worker.running:
            claim = self.dice.choice([*worker.running])
            if self.dice.random() < outside:
                self.die(worker, None)
            elif self.jobs[claim.job_id].is_poisonous:
                self.die(worker, claim)
            else:
                worker.end(claim)


def run(seed: int, *, concurrency: int, poison: float, limit: int | None, prefetching: float, outside: float) -> World:
    dice = random.Random(seed)
    jobs = {number: Job(number, dice.random() < poison) for number in range(1, 41)}
    world = World(dice, concurrency, limit, jobs)
    for _ in range(MOST_STEPS):
        if all(job.end is not None for job in jobs.values()):
            break
        world.step(prefetching, outside)
    return world


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    concurrency=st.integers(1, 20),
    poison=st.sampled_from([0.02, 0.05, 0.2, 0.6]),
    limit=st.integers(2, 5),
    prefetching=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_no_job_fails_because_of_a_neighbour_and_each_poisonous_one_ends_within_the_limit(
    seed: int, concurrency: int, poison: float, limit: int, prefetching: float
) -> None:
    world = run(seed, concurrency=concurrency, poison=poison, limit=limit, prefetching=prefetching, outside=0.0)
    for job in world.jobs.values():
        assert job.end == ("poisoned" if job.is_poisonous else "completed"), job
        assert world.caused[job.id] <= limit, f"job {job.id} killed {world.caused[job.id]} workers"


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    concurrency=st.integers(1, 20),
    limit=st.integers(2, 4),
    outside=st.sampled_from([0.05, 0.2]),
)
def test_beside_deaths_from_outside_an_innocent_job_fails_only_for_those_that_met_it_the_last_one_alone(
    seed: int, concurrency: int, limit: int, outside: float
) -> None:
    world = run(seed, concurrency=concurrency, poison=0.05, limit=limit, prefetching=0.3, outside=outside)
    for job in world.jobs.values():
        assert job.end is not None, job
        if job.end == "poisoned" and not job.is_poisonous:
            assert world.alone_at_last[job.id]
            assert world.suffered[job.id] >= 1
        assert world.caused[job.id] <= limit


@pytest.mark.parametrize("seed", range(3))
def test_without_a_limit_no_job_ever_fails_and_none_is_kept_apart(seed: int) -> None:
    world = run(seed, concurrency=10, poison=0.0, limit=None, prefetching=0.5, outside=0.3)
    assert {job.end for job in world.jobs.values()} == {"completed"}
    assert {job.suspicion for job in world.jobs.values()} == {"none"}
