"""Histories: workers that join, claim, start, settle, freeze, thaw and die, while others watch and sweep.

Each step is done by the real statements and by the model, and both must agree on what comes back and on every row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ferryman.jobs import JobKeyMode, RescheduleJobOptions
from ferryman.queries.claim import ClaimStatement
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from ferryman.worker.claiming.claims import reply_from_rows
from ferryman.worker.settling.outcomes import Completed, Failed, Interrupted, Snoozed, Unstarted
from tests.model.actions import Actions
from tests.model.model_database import SECOND, as_time
from tests.model.oracle import MORE
from tests.model.sweeping import ModelSweep
from tests.model.workers import POLICIES, TASK_SETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.worker.settling.outcomes import Outcome
    from tests.model.model_database import ModelDatabase

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


class Histories(Actions, RuleBasedStateMachine):
    """One history."""

    def __init__(self, model_database: ModelDatabase, witness: Counter[str]) -> None:
        RuleBasedStateMachine.__init__(self)
        Actions.__init__(self, model_database, witness)

    @initialize(
        delay=st.sampled_from([0, 30]),
        max_crashes=st.sampled_from([3, 2]),
        workers=st.lists(st.fixed_dictionaries(characters), min_size=1, max_size=3),
        jobs=st.lists(st.fixed_dictionaries(places), min_size=1, max_size=5),
    )
    def begin(
        self, delay: int, max_crashes: int, workers: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]
    ) -> None:
        self.witness["histories"] += 1
        self._prepare(delay, max_crashes)
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
        removed = self.database.client.remove_job(key)
        assert (None if removed is None else removed.id) == self.oracle.remove(key)

    @precondition(lambda self: self._spent())
    @rule(pick=picks)
    def reschedule(self, pick: int) -> None:
        """Let a job run again that has no attempts left, whoever holds it."""
        self._pass()
        job_id = _picked(self._spent(), pick)
        options = RescheduleJobOptions(attempts=0, run_at=as_time(self.oracle.at))
        changed = self.database.client.reschedule_jobs([job_id], options)
        assert bool(changed) == self.oracle.reschedule(job_id)

    @precondition(lambda self: self.oracle.queues)
    @rule(pick=picks)
    def delete_row(self, pick: int) -> None:
        """Somebody deletes a job under its owner."""
        self._pass()
        queue = _picked([*self.oracle.queues], pick)
        for job in [*self.oracle.jobs.values()]:
            if job.queue == queue and job.locked_at is not None:
                self.database.delete_row(job.id)
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
        search=st.sampled_from(ClaimStatement),
        passing=st.integers(0, 2),
    )
    def claim_otherwise(self, pick: int, wanted: int, window: int, search: ClaimStatement, passing: int) -> None:
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
        self.database.do(worker.lost.give_back(at_once=True))
        self._give_back_unheard(worker)
        call = search.value(
            worker.id,
            [self.task_ids[name] for name in worker.tasks],
            wanted=wanted,
            window=window,
            now=None,
            forbidden_flags=worker.forbidden_flags,
            done=[held.fence[1:] for held in done],
        )
        claimed = reply_from_rows(self.database.fetch(call), worker.id)
        ended = [held.claim.job_id for held in done if self.oracle.settle(*held.fence, None, Completed(0.0))]
        assert (sorted(ended) if claimed.done is None else sorted(claimed.done)) == sorted(ended)
        assert (claimed.done is None) == (len(ended) == len(done))
        self.witness["completed in passing"] += len(ended)
        self.witness["refused in passing"] += len(done) - len(ended)
        for held in done:
            worker.held.remove(held)
        worker.lost.heard_of(claimed.claims)
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
        self._start(worker, held)

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
        self._crash(_picked(self._holding(), pick))

    @precondition(lambda self: self._unstarted_suspects())
    @rule(pick=picks)
    def crash_again(self, pick: int) -> None:
        """A job that was running when a worker died begins, and its worker dies too, which is seen soon."""
        worker, held = _picked(self._unstarted_suspects(), pick)
        self._pass()
        self._start(worker, held)
        self._crash(worker)
        self._watch(looks=3, sweeps=True)

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

    @rule(
        seconds=st.sampled_from([1, 31, 31, 60, 101, 301, 5 * 3600, 80 * 3600]),
        is_heard=st.sampled_from([True, True, False]),
    )
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
        self.database.lose_all_sessions()
        self.oracle.sessions.clear()
        self._could_not_look()
        self.is_away = True
        if are_back:
            self._come_back()

    @rule(looks=st.sampled_from([1, 2, 3, 3, 3, 8, 12, 31]), sweeps=st.booleans())
    def watch(self, looks: int, sweeps: bool) -> None:
        """Everybody beats and one looks, some times; whoever is found dead is mostly swept at once."""
        self._watch(looks, sweeps=sweeps)

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
        real, model = self.database.snapshot(INFRASTRUCTURE_RESILIENT_FLAG), self.oracle.snapshot()
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
        self.database.lose_all_sessions()
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


def _picked(things: Sequence[Any], pick: int) -> Any:
    return things[pick % len(things)]
