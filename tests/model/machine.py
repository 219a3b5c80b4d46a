"""Histories: workers that join, claim, start, settle, freeze, thaw and die, while others watch and sweep.

Each step is done by the real statements and by the model, and both must agree on what comes back and on every row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.model.oracle import MORE, Job, Oracle, Registered
from tests.model.sweeping import ModelSweep, Policy, Rules, Seen
from tests.model.watching import ModelObserver, Shown
from tests.model.world import SECOND, Line, as_moment, as_time

from ferryman import App
from ferryman.errors import DatabaseUnavailableError
from ferryman.hooks import HookRegistry
from ferryman.jobs import JobKeyMode, JobSpec, RescheduleJobOptions
from ferryman.queries import beating, working
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
from ferryman.recovery.metadata import worker_metadata
from ferryman.recovery.policies import store_policies
from ferryman.recovery.results import SweepStaleWorkersOptions
from ferryman.recovery.sweeping import Sweep, sweep_once
from ferryman.recovery.watching import Dead, Observer, Sign
from ferryman.retries import LinearDelay
from ferryman.worker.claimer import Claimer
from ferryman.worker.claims import claimed_from_rows, task_ids
from ferryman.worker.identity import Identity
from ferryman.worker.outcomes import Completed, Failed, Interrupted, Snoozed, Unstarted
from ferryman.worker.settler import Settler
from ferryman.worker.start_marks import StartMarks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.model.world import World

    from ferryman.recovery.results import SweepStaleWorkersResult
    from ferryman.retries import OnCrash
    from ferryman.worker.claims import Claim
    from ferryman.worker.outcomes import Outcome, Settlement

START = 1_900_000_000 * SECOND
STEP = SECOND // 64
"""Time passes with each step, so that no two moments are the same; in floating point its sums are exact."""
LOOK = 10
"""Seconds between two looks of the observer, and between two beats."""
GRACE = 20.0
SWEEP_THRESHOLD, CLAIMED_THRESHOLD = 100.0, 50.0
SPANS = [1, 31, 31, 60, 101, 301, 5 * 3600, 80 * 3600]
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
        self, world: World, kind: str, tasks: Mapping[int, str], on_crash: OnCrash, *, avoids_resilient: bool = False
    ) -> None:
        self.kind = kind
        self.tasks = (*tasks.values(),)
        self.on_crash: OnCrash = on_crash
        self.avoids_resilient = avoids_resilient
        self.identity = Identity()
        self.line = Line(world)
        self.marks = StartMarks(self.line, on_crash)
        self.claimer = Claimer(
            self.line,
            self.identity,
            self.tasks,
            forbidden_flags=self.forbidden_flags,
            use_local_time=False,
            known=lambda: [held.claim for held in self.held],
        )
        self.claimer.tasks = tasks
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
    def forbidden_flags(self) -> Sequence[str]:
        return [INFRASTRUCTURE_RESILIENT_FLAG] if self.avoids_resilient else []


picks = st.integers(0, 7)
places = {
    "task": st.sampled_from([*POLICIES]),
    "queue": st.sampled_from([None, "q", "r"]),
    "priority": st.integers(0, 1),
    "delay": st.sampled_from([0, 0, 0, 40]),
    "max_attempts": st.sampled_from([1, 2, 3, 25]),
    "is_resilient": st.sampled_from([False, False, False, True]),
}
characters = {
    "kind": st.sampled_from(["ahead", "ahead", "direct", "rust", "node"]),
    "tasks": st.sampled_from(TASK_SETS),
    "on_crash": st.sampled_from(["requeue", "requeue", "retry"]),
    "avoids_resilient": st.sampled_from([False, False, False, True]),
}
unfinished = st.one_of(
    st.builds(Failed, st.just("boom"), st.sampled_from([None, 0.0, 60.0]), st.booleans()),
    st.sampled_from([Snoozed(60.0), Interrupted("stopped", 0.0), Unstarted()]),
)


class Histories(RuleBasedStateMachine):
    """One history. `witness` counts what was seen in all of them."""

    def __init__(self, world: World, witness: Counter[str]) -> None:
        super().__init__()
        self.world = world
        self.witness = witness
        self.oracle = Oracle(START, START, START - 365 * 86400 * SECOND)
        self.workers: list[Worker] = []
        self.gone: list[Worker] = []
        self.watcher = Worker(world, "direct", {}, "requeue")
        self.numbers = 0
        self.added: set[int] = set()
        self.dead: dict[str, Dead] = {}
        self.is_away = False
        self.observer = Observer(grace=GRACE, silent_after=CLAIMED_THRESHOLD, longest_gap=2.0 * LOOK)
        self.model_observer = ModelObserver(GRACE, 2.0 * LOOK)
        self.reports: dict[Claim, tuple[Outcome, bool]] = {}

    @initialize(
        delay=st.sampled_from([0, 30]),
        max_crashes=st.sampled_from([3, 2]),
        workers=st.lists(st.fixed_dictionaries(characters), min_size=1, max_size=3),
        jobs=st.lists(st.fixed_dictionaries(places), min_size=1, max_size=5),
    )
    def begin(
        self, delay: int, max_crashes: int, workers: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]
    ) -> None:
        self.world.reset()
        self.witness["histories"] += 1
        self.settings = WorkerRecoveryConfig(
            heartbeat_interval=timedelta(seconds=LOOK),
            sweep_threshold=timedelta(seconds=SWEEP_THRESHOLD),
            claimed_threshold=timedelta(seconds=CLAIMED_THRESHOLD),
            lost_session_grace=timedelta(seconds=GRACE),
            recovery_delay=timedelta(seconds=delay),
            max_crashes=max_crashes,
        ).settings
        self.rules = Rules(
            threshold=SWEEP_THRESHOLD,
            claimed_threshold=CLAIMED_THRESHOLD,
            multiplier=3,
            recovery_delay=delay,
            max_crashes=max_crashes,
            crash_window=72 * 3600,
            on_crash="requeue",
            policies=POLICIES,
        )
        self._pass()
        numbers = task_ids(self.world.fetch(working.register_tasks([*POLICIES])))
        self.task_ids = {name: number for number, name in numbers.items()}
        self.world.run(store_policies(app.tasks.values()))
        self._register(self.watcher)
        for character in workers:
            self._join(**character)
        for place in jobs:
            self._pass()
            self._add(None, JobKeyMode.REPLACE, **place)
        self._poll()

    # Producers

    @rule(**places)
    def add(self, **place: Any) -> None:
        self._pass()
        self._add(None, JobKeyMode.REPLACE, **place)

    @rule(
        key=st.sampled_from(["a", "b"]),
        mode=st.sampled_from(JobKeyMode),
        begun_before=st.sampled_from([0, 0, 5]),
        **places,
    )
    def add_with_key(self, key: str, mode: JobKeyMode, begun_before: int, **place: Any) -> None:
        """Now and then in a transaction that has begun some time ago."""
        self._pass(begun_before=begun_before * SECOND)
        self._add(key, mode, **place)

    @precondition(lambda self: any(job.key for job in self.oracle.jobs.values()))
    @rule(key=st.sampled_from(["a", "b"]))
    def remove(self, key: str) -> None:
        self._pass()
        removed = self.world.client.remove_job(key)
        assert (None if removed is None else removed.id) == self.oracle.remove(key)

    @precondition(lambda self: self._spent())
    @rule(pick=picks)
    def reschedule(self, pick: int) -> None:
        """Let a job run again that has no attempts left, whoever holds it."""
        self._pass()
        job_id = _picked(self._spent(), pick)
        options = RescheduleJobOptions(attempts=0, run_at=as_time(self.oracle.at))
        changed = self.world.client.reschedule_jobs([job_id], options)
        assert bool(changed) == self.oracle.reschedule(job_id)

    @precondition(lambda self: self.oracle.queues)
    @rule(pick=picks)
    def delete_row(self, pick: int) -> None:
        """Somebody deletes a job under its owner."""
        self._pass()
        queue = _picked([*self.oracle.queues], pick)
        for job in [*self.oracle.jobs.values()]:
            if job.queue == queue and job.locked_at is not None:
                self.world.delete_row(job.id)
                self.oracle.delete_row(job.id)

    # Workers

    @precondition(lambda self: len(self.workers) < 3)
    @rule(**characters)
    def join(self, **character: Any) -> None:
        self._pass()
        self._join(**character)
        self._poll()

    @precondition(lambda self: self._able())
    @rule(pick=picks, wanted=st.integers(1, 4), is_heard=st.sampled_from([True, True, True, True, False]))
    def claim(self, pick: int, wanted: int, is_heard: bool) -> None:
        """Also in a name that was swept: it does not know yet."""
        worker = _picked(self._able(), pick)
        self._pass()
        if is_heard:
            self._claim(worker, wanted)
        else:
            self._claim_unheard(worker, wanted)

    @precondition(lambda self: self._awake())
    @rule(
        pick=picks,
        wanted=st.integers(1, 4),
        window=st.sampled_from([100, 2]),
        search=st.sampled_from(working.Search),
        passing=st.integers(0, 2),
    )
    def claim_otherwise(self, pick: int, wanted: int, window: int, search: working.Search, passing: int) -> None:
        """As workers do when many jobs of others stand in front; and with a narrow window, as if they did.

        Finished jobs without a queue are completed in passing.
        """
        worker = _picked(self._awake(), pick)
        self._pass()
        done = [
            held
            for held in worker.held
            if held.has_started and held.queue is None and held.claim.worker_id == worker.id
        ][:passing]
        self.world.do(worker.claimer.give_back_lost())
        self._give_back_unheard(worker)
        call = working.claim_jobs(
            worker.id,
            [self.task_ids[name] for name in worker.tasks],
            wanted=wanted,
            window=window,
            now=None,
            forbidden_flags=worker.forbidden_flags,
            search=search,
            done=[held.fence[1:] for held in done],
        )
        claimed = claimed_from_rows(self.world.fetch(call), worker.id)
        ended = [held.claim.job_id for held in done if self.oracle.settle(*held.fence, None, Completed(0.0))]
        assert (sorted(ended) if claimed.done is None else sorted(claimed.done)) == sorted(ended)
        assert (claimed.done is None) == (len(ended) == len(done))
        self.witness["completed in passing"] += len(ended)
        self.witness["refused in passing"] += len(done) - len(ended)
        for held in done:
            worker.held.remove(held)
        worker.claimer._lost.heard_of(claimed)
        ideal = self._claimable(worker)[:wanted]
        got = [self.oracle.jobs[claim.job_id] for claim in claimed.claims]
        if claimed.is_window_full:
            # It may see less than all, but never takes one before a better one.
            assert [job.order[:2] for job in got] == [job.order[:2] for job in ideal[: len(got)]]
            self.witness["window full"] += 1
        else:
            assert got == ideal
        self._has_claimed(worker, claimed.claims)

    @precondition(lambda self: self._unstarted())
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        """A job that was claimed ahead begins, after its mark is written if it needs one."""
        worker, held = _picked(self._unstarted(), pick)
        self._pass()
        if not worker.marks.are_needed(app.registry[held.task], held.claim):
            held.has_started = True
            return
        may_start = self.world.do(worker.marks.mark(held.claim))
        assert may_start == self.oracle.mark(*held.fence)
        self.witness["start marked" if may_start else "start refused"] += 1
        held.has_started = may_start
        if not may_start:
            worker.held.remove(held)

    @precondition(lambda self: self._awake(holding=True))
    @rule(pick=picks, count=st.integers(1, 3))
    def complete(self, pick: int, count: int) -> None:
        worker = _picked(self._awake(holding=True), pick)
        self._pass()
        self._settle(worker, [(held, Completed(0.0)) for held in worker.held[:count]])

    @precondition(lambda self: self._awake(holding=True))
    @rule(pick=picks, which=picks, outcomes=st.lists(unfinished, min_size=1, max_size=2))
    def fail(self, pick: int, which: int, outcomes: list[Outcome]) -> None:
        worker = _picked(self._awake(holding=True), pick)
        self._pass()
        first = which % len(worker.held)
        self._settle(worker, [*zip(worker.held[first:], outcomes, strict=False)])

    @precondition(lambda self: self._holding())
    @rule(pick=picks)
    def crash(self, pick: int) -> None:
        self._pass()
        worker = _picked(self._holding(), pick)
        self.workers.remove(worker)
        self.gone.append(worker)
        self._lose_session(worker)

    @precondition(lambda self: self._awake(holding=True))
    @rule(pick=picks)
    def freeze(self, pick: int) -> None:
        """It says and does nothing, but its session lasts."""
        _picked(self._awake(holding=True), pick).is_frozen = True

    @precondition(lambda self: self._frozen())
    @rule(
        pick=picks,
        outcome=st.one_of(st.just(Completed(0.0)), unfinished),
        settles=st.sampled_from([9, 1, 0]),
        beats=st.booleans(),
    )
    def thaw(self, pick: int, outcome: Outcome, settles: int, beats: bool) -> None:
        """It settles what it believes to hold, or goes on with it, and learns that it was swept, at once or later."""
        worker = _picked(self._frozen(), pick)
        self._pass()
        worker.is_frozen = False
        self._settle(worker, [(held, outcome) for held in worker.held[:settles]])
        if beats:
            self._beat(worker)

    # Time, and those who watch

    @rule(seconds=st.sampled_from(SPANS), is_heard=st.sampled_from([True, True, False]))
    def clock(self, seconds: int, is_heard: bool) -> None:
        """Time passes, and those who live go on beating and working, though replies may be lost."""
        self._pass(seconds * SECOND)
        self._come_back()
        self._poll(is_heard=is_heard)

    @rule(
        seconds=st.sampled_from([5, 30, 130, 400]),
        was_restarted=st.booleans(),
        are_back=st.booleans(),
    )
    def outage(self, seconds: int, was_restarted: bool, are_back: bool) -> None:
        """Nobody reaches the database, and all sessions end. Some time later everybody is back."""
        self._pass(seconds * SECOND)
        if was_restarted:
            self.oracle.up_since = self.oracle.at
            self._pass()
        self.world.lose_all_sessions()
        self.oracle.sessions.clear()
        self._could_not_look()
        self.is_away = True
        if are_back:
            self._come_back()

    @rule(looks=st.sampled_from([1, 2, 3, 3, 3, 8, 12, 31]), sweeps=st.booleans())
    def watch(self, looks: int, sweeps: bool) -> None:
        """Everybody beats and one looks, some times; whoever is found dead is mostly swept at once."""
        for _ in range(looks):
            self._pass(LOOK * SECOND - STEP)
            if self.is_away:
                self._could_not_look()
                self._come_back()
            else:
                for worker in self._awake():
                    self._beat(worker)
                self._look()
            if sweeps and self.dead:
                self._sweep(batch=500)
        self._poll()

    @precondition(lambda self: self.dead)
    @rule(batch=st.sampled_from([1, 2, 500]), beats_first=st.booleans())
    def sweep(self, batch: int, beats_first: bool) -> None:
        """By what was seen, perhaps long ago, or just before a frozen worker has come back."""
        self._pass()
        for worker in self._frozen() if beats_first else []:
            worker.is_frozen = False
            self._beat(worker)
        self._sweep(batch=batch)

    @rule(batch=st.sampled_from([1, 2, 500]), threshold=st.sampled_from([None, 30]), is_dry=st.booleans())
    def sweep_by_age(self, batch: int, threshold: int | None, is_dry: bool) -> None:
        """As somebody does who has not looked before: the age of beats and locks decides."""
        self._pass()
        options = SweepStaleWorkersOptions(
            sweep_threshold=None if threshold is None else timedelta(seconds=threshold), dry_run=False
        )
        rules = self.rules if threshold is None else replace(self.rules, threshold=threshold)
        model = ModelSweep(self.oracle, rules, "somebody")
        if is_dry:
            foreseen = self._swept("somebody", options=replace(options, dry_run=True))
            assert sorted(foreseen.worker_ids) == sorted(one.id for one in model.suspects() if one.is_dead)
        self._compare_sweep(model, self._swept("somebody", options=options, batch=batch))

    @precondition(lambda self: self._holding())
    @rule(pick=picks)
    def sweep_by_name(self, pick: int) -> None:
        """Somebody declares a worker dead, which may well be alive."""
        self._pass()
        names = [_picked(self._holding(), pick).id]
        self._sweep_names(names)

    # What must hold

    @invariant()
    def all_is_as_foretold(self) -> None:
        self.witness["steps"] += 1
        if not self.added and not self.oracle.workers:
            return
        real, model = self.world.snapshot(INFRASTRUCTURE_RESILIENT_FLAG), self.oracle.snapshot()
        for job_id, job in self.oracle.jobs.items():
            told = real[0].get(job_id, {}).get("last_error") or ""
            if job.last_error is not None and job.last_error.endswith(MORE) and told.startswith(job.last_error[:-1]):
                job.last_error = model[0][job_id]["last_error"] = told
        assert real == model
        self.oracle.check()
        assert self.oracle.jobs.keys() | self.oracle.ended.keys() == self.added
        self._each_lock_has_one_owner()

    def _each_lock_has_one_owner(self) -> None:
        """Of all that workers believe to hold, only one can be settled; and somebody knows of each lock."""
        everybody = [*self.workers, *self.gone]
        believed = [held.fence for worker in everybody for held in worker.held]
        settleable = Counter(fence[1] for fence in believed if self.oracle.owns(*fence))
        assert all(count == 1 for count in settleable.values()), settleable
        unheard = {name for worker in everybody for name in worker.unheard_as}
        for job in self.oracle.jobs.values():
            if job.locked_by is not None and job.locked_by not in unheard:
                assert settleable[job.id] == 1, f"nobody knows that {job.locked_by} holds job {job.id}"

    def teardown(self) -> None:
        """When all are dead, sweeps leave nothing locked and nobody registered."""
        if not hasattr(self, "settings"):
            return
        self.world.lose_all_sessions()
        self.oracle.sessions.clear()
        self._pass(10 * 86400 * SECOND)
        model = ModelSweep(self.oracle, self.rules, "somebody")
        self._compare_sweep(model, self._swept("somebody"))
        self.all_is_as_foretold()
        assert not self.oracle.workers
        strangers = {worker.id for worker in [*self.workers, *self.gone] if worker.kind == "node"}
        assert {job.locked_by for job in self.oracle.jobs.values()} <= strangers | {None}
        self._sweep_names(sorted(strangers))
        self.all_is_as_foretold()
        assert not self.oracle.queues
        assert all(job.locked_by is None for job in self.oracle.jobs.values())

    # How it is done

    def _pass(self, time: int = 0, *, begun_before: int = 0) -> None:
        """Let some time pass."""
        self.witness["passes"] += 1
        self.oracle.at += time + STEP
        self.oracle.begun_at = self.oracle.at - begun_before
        self.world.set_clock(self.oracle.at, begun_at=self.oracle.begun_at, up_since=self.oracle.up_since)

    def _awake(self, *, holding: bool = False) -> list[Worker]:
        return [worker for worker in self.workers if not worker.is_frozen and (worker.held or not holding)]

    def _able(self) -> list[Worker]:
        """Those for whom there is something to claim."""
        return [worker for worker in self._awake() if self._claimable(worker)]

    def _claimable(self, worker: Worker) -> list[Job]:
        return self.oracle.claimable(worker.tasks, avoids_resilient=worker.avoids_resilient)

    def _spent(self) -> list[int]:
        return [job.id for job in self.oracle.jobs.values() if job.attempts >= job.max_attempts]

    def _holding(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.held or worker.unheard_as]

    def _unstarted(self) -> list[tuple[Worker, Held]]:
        return [(worker, held) for worker in self._awake() for held in worker.held if not held.has_started]

    def _frozen(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_frozen]

    def _add(
        self,
        key: str | None,
        mode: JobKeyMode,
        *,
        task: str,
        queue: str | None,
        priority: int,
        delay: int,
        max_attempts: int,
        is_resilient: bool,
    ) -> None:
        run_at = self.oracle.begun_at + delay * SECOND
        spec = JobSpec(
            queue_name=queue,
            run_at=as_time(run_at) if delay else None,
            max_attempts=max_attempts,
            job_key=key,
            job_key_mode=mode,
            priority=priority,
            flags=(INFRASTRUCTURE_RESILIENT_FLAG,) if is_resilient else None,
        )
        added = self.world.client.add_raw_job(task, [self.oracle.at], spec)
        new = Job(
            id=added.id,
            task=task,
            queue=queue,
            payload=f"[{self.oracle.at}]",
            priority=priority,
            run_at=run_at,
            max_attempts=max_attempts,
            key=key,
            is_resilient=is_resilient,
            updated_at=self.oracle.begun_at,
        )
        stored = self.oracle.add(new, mode)
        assert added.id == stored.id
        assert (stored is new) == (added.id not in self.added)
        self.added.add(added.id)

    def _join(self, *, kind: str, tasks: Sequence[str], on_crash: OnCrash, avoids_resilient: bool) -> None:
        known = {self.task_ids[name]: name for name in tasks}
        worker = Worker(self.world, kind, known, on_crash, avoids_resilient=avoids_resilient)
        self._register(worker)
        self.workers.append(worker)

    def _register(self, worker: Worker) -> None:
        """Under an id that nobody had before."""
        self.numbers += 1
        prefix = {"node": "worker-", "rust": "graphile_worker_"}.get(worker.kind, "ferryman-")
        worker.identity.id = f"{prefix}{self.numbers:018}"
        if not worker.registers:
            return
        self._open_session(worker)
        self.world.fetch(beating.register_worker(worker.id, self._metadata(worker)))
        self._note_registered(worker)

    def _metadata(self, worker: Worker) -> dict[str, Any]:
        if worker.kind == "rust":
            return {}
        config = replace(self.settings, on_crash=worker.on_crash)
        told = worker_metadata(config, version="1", tasks=[], concurrency=1, prefetches=worker.prefetches)
        return {**told, "session_key": worker.session_key}

    def _note_registered(self, worker: Worker) -> None:
        says_little = worker.kind == "rust"
        self.oracle.workers[worker.id] = Registered(
            beat=self.oracle.at,
            prefetches=None if says_little else worker.prefetches,
            beat_interval=0.0 if says_little else float(LOOK),
            session_key=worker.session_key,
            on_crash=None if says_little else worker.on_crash,
        )

    def _open_session(self, worker: Worker) -> None:
        if worker.kind != "rust" and worker.session_key not in self.oracle.sessions:
            self.numbers += 1
            worker.session_key = self.numbers
            self.world.hold_session(worker.session_key)
            self.oracle.sessions.add(worker.session_key)

    def _lose_session(self, worker: Worker) -> None:
        if worker.session_key in self.oracle.sessions:
            assert worker.session_key is not None
            self.world.lose_session(worker.session_key)
            self.oracle.sessions.remove(worker.session_key)

    def _beat(self, worker: Worker) -> None:
        """A sign of life, over a new session if the old one is lost. One that was swept goes on under a new id."""
        if not worker.registers:
            return
        if worker.kind != "rust" and worker.session_key not in self.oracle.sessions:
            self._open_session(worker)
            is_registered = bool(self.world.fetch(beating.rejoin_worker(worker.id, self._metadata(worker))))
        else:
            [(is_registered, _)] = self.world.fetch(
                beating.pulse(worker.id, is_due=True, watch_step="none", watch_key=0)
            )
        self._has_heard(worker, is_registered)

    def _has_heard(self, worker: Worker, is_registered: bool) -> None:
        assert is_registered == (worker.id in self.oracle.workers)
        if is_registered:
            self._note_registered(worker)
        else:
            self.witness["learnt that it was swept"] += 1
            self._register(worker)

    def _come_back(self) -> None:
        self.is_away = False
        for worker in [self.watcher, *self._awake()]:
            self._beat(worker)

    def _claim(self, worker: Worker, wanted: int) -> None:
        self._give_back_unheard(worker)
        ideal = self._claimable(worker)[:wanted]
        claimed = self.world.do(worker.claimer.claim(wanted))
        assert [claim.job_id for claim in claimed.claims] == [job.id for job in ideal]
        self._has_claimed(worker, claimed.claims)

    def _claim_unheard(self, worker: Worker, wanted: int) -> None:
        self.world.do(worker.claimer.give_back_lost())
        self._give_back_unheard(worker)
        ideal = self._claimable(worker)[:wanted]
        worker.line.loses_reply = True
        with pytest.raises(DatabaseUnavailableError):
            self.world.do(worker.claimer.claim(wanted))
        worker.line.loses_reply = False
        worker.unheard_as.add(worker.id)
        self.oracle.claim(ideal, worker.id)

    def _poll(self, *, is_heard: bool = True) -> None:
        """Those who have little to do look for more."""
        for worker in self._awake():
            if len(worker.held) < 3 and (worker.unheard_as or self._claimable(worker)):
                self._pass()
                if is_heard:
                    self._claim(worker, 2)
                else:
                    self._claim_unheard(worker, 2)

    def _give_back_unheard(self, worker: Worker) -> None:
        """The model's part; the real claimer does it before it claims."""
        for name in worker.unheard_as:
            self.witness["claims given back unheard"] += len(self.oracle.return_unheard(name, worker.newest_token))
        worker.unheard_as.clear()

    def _has_claimed(self, worker: Worker, claims: Sequence[Claim]) -> None:
        jobs = [self.oracle.jobs[claim.job_id] for claim in claims]
        self.oracle.claim(jobs, worker.id)
        for claim, job in zip(claims, jobs, strict=True):
            told = (claim.attempts, claim.max_attempts, claim.token, claim.last_error, claim.queue_id is not None)
            assert told == (job.attempts, job.max_attempts, job.locked_at, job.last_error, job.queue is not None)
            assert claim.job(job.task).queue_name == job.queue
        worker.held += [
            Held(claim, job.task, job.queue, has_started=not worker.prefetches)
            for claim, job in zip(claims, jobs, strict=True)
        ]
        if claims:
            worker.newest_token = claims[0].token
            self.witness["claimed"] += len(claims)

    def _settle(self, worker: Worker, endings: Sequence[tuple[Held, Outcome]]) -> None:
        """Through the real settler, all together."""
        self.reports = {}
        self.world.do(self._write([(held.claim, outcome) for held, outcome in endings]))
        for held, outcome in endings:
            reported, is_written = self.reports[held.claim]
            job = self.oracle.jobs.get(held.claim.job_id)
            assert is_written == self.oracle.settle(*held.fence, held.queue, outcome), held
            self.witness["accepted" if is_written else "refused"] += 1
            if is_written and job is not None and isinstance(reported, Failed):
                assert reported.is_final == (job.attempts >= job.max_attempts)
            worker.held.remove(held)

    async def _write(self, endings: Sequence[tuple[Claim, Outcome]]) -> None:
        settler = Settler(Line(self.world), report=self._report)
        writing = asyncio.create_task(settler.run())
        for claim, outcome in endings:
            settler.settle(claim, outcome)
        await settler.flush()
        writing.cancel()
        await asyncio.wait([writing])

    async def _report(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        self.reports |= {settlement.claim: (settlement.outcome, True) for settlement in written}
        self.reports |= {settlement.claim: (settlement.outcome, False) for settlement in refused}

    def _look(self) -> None:
        call = beating.look(
            self.watcher.id, is_due=True, watch_step="keep", watch_key=0, is_full=True, old_after=float(LOOK)
        )
        rows = self.world.fetch(call)
        signs = [Sign(*row[2:]) for row in rows if row[2] is not None]
        shown = self._shown()
        assert {sign.worker_id: (as_moment(sign.beat), sign.has_lost_session, sign.is_old) for sign in signs} == {
            name: (one.beat, one.has_lost_session, one.is_old) for name, one in shown.items()
        }
        self._has_heard(self.watcher, rows[0][0])
        now = (self.oracle.at - START) / SECOND
        dead = self.observer.looked(signs, is_full=True, sent=now, received=now)
        told = {one.worker_id: (as_moment(one.last_heartbeat_at), one.reason, one.silent_for) for one in dead}
        assert told == self.model_observer.looked(now, shown)
        self.dead.update({one.worker_id: one for one in dead})

    def _shown(self) -> dict[str, Shown]:
        shown = {}
        for name, worker in self.oracle.workers.items():
            has_lost = worker.session_key is not None and worker.session_key not in self.oracle.sessions
            is_old = not self.oracle.at - LOOK * SECOND <= worker.beat <= self.oracle.at
            if name != self.watcher.id and (has_lost or is_old):
                limit = max(CLAIMED_THRESHOLD, 2 * worker.beat_interval)
                shown[name] = Shown(worker.beat, has_lost, is_old, limit)
        return shown

    def _could_not_look(self) -> None:
        self.observer.could_not_look()
        self.model_observer.could_not_look()

    def _sweep(self, batch: int) -> None:
        seen = {
            name: Seen(as_moment(one.last_heartbeat_at), one.silent_for, one.reason == "session lost")
            for name, one in self.dead.items()
        }
        model = ModelSweep(self.oracle, self.rules, self.watcher.id, observed=seen, finds_orphans=False)
        observed, self.dead = [*self.dead.values()], {}
        for one in observed:
            worker = self.oracle.workers.get(one.worker_id)
            self.witness["seen dead and alive again"] += worker is not None and worker.beat != seen[one.worker_id].beat
        result = self._swept(self.watcher.id, observed=observed, finds_orphans=False, batch=batch)
        self._compare_sweep(model, result)

    def _sweep_names(self, names: Sequence[str]) -> None:
        model = ModelSweep(self.oracle, self.rules, "somebody", named=names)
        options = SweepStaleWorkersOptions(worker_ids=names)
        self._compare_sweep(model, self._swept("somebody", options=options))

    def _swept(self, recovered_by: str, **given: Any) -> SweepStaleWorkersResult:
        sweep = Sweep(
            schema_name=self.world.client.schema.name,
            settings=self.settings,
            recovered_by=recovered_by,
            hooks=HookRegistry(),
            **given,
        )
        result: SweepStaleWorkersResult = self.world.run(sweep_once(sweep))
        return result

    def _compare_sweep(self, model: ModelSweep, result: SweepStaleWorkersResult) -> None:
        taken, dead = model.run()
        assert sorted(result.worker_ids) == sorted(dead)
        assert [(one.job_id, one.worker_id, one.started, one.decision) for one in result.recoveries] == [
            (one.job_id, one.worker_id, one.started, one.decision) for one in taken
        ]
        begun = {held.fence: held.has_started for worker in [*self.workers, *self.gone] for held in worker.held}
        for one in taken:
            self.witness[one.decision] += 1
            truth = begun.get((one.worker_id, one.job_id, one.token))
            if truth is not None and one.started is not None:
                assert one.started is truth, f"job {one.job_id} has begun: {truth}; the sweep believes: {one.started}"
        self.witness["only unstarted jobs taken"] += bool(taken) and not dead
        if taken:
            self.all_is_as_foretold()


def _picked(things: Sequence[Any], pick: int) -> Any:
    return things[pick % len(things)]
