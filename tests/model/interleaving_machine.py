"""Interleaved histories at random.

Draws never depend on what has happened, because two statements that wait for one row may get it in any order. A step
that no actor can take now is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ferryman.queries.claim import ClaimStatement
from ferryman.worker.settling.outcomes import Failed, Snoozed, Unstarted
from tests.model.interleaving_history import OTHERS, USES_OF_JOBS, USES_OF_QUEUES, WORKERS, History
from tests.model.interleaving_lines import Gate

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from tests.model.interleaving_actors import Other, Worker
    from tests.model.interleaving_history import Cast
    from tests.model.interleaving_ledger import Job

T = TypeVar("T")
Step: TypeAlias = "tuple[str, dict[str, Any]]"
"""The name of a step, and its arguments."""

picks = st.integers(0, 3)
counts = st.integers(1, 3)
queues = st.sampled_from(["q", None, "q", "r"])
stopping = {"stop": st.sampled_from([None] * 6 + [*Gate])}
holding = {"ends": st.sampled_from([None, None, None, True, False])}
ending = {"ends": st.sampled_from([None, True, True, False])}
searching = {
    "search": st.sampled_from([ClaimStatement.FRONT.name, ClaimStatement.PLAIN.name, ClaimStatement.BY_TASK.name]),
    "wanted": counts,
    "window": st.sampled_from([100, 2]),
}
workers = {"worker": st.integers(0, WORKERS - 1)}
others = {"other": st.integers(0, OTHERS - 1)}
settling = {**workers, "first": picks, "count": counts, "skips": st.booleans(), **stopping}
outcomes = st.one_of(
    st.builds(Failed, st.just("boom"), st.sampled_from([0.0, None]), st.booleans()),
    st.sampled_from([Unstarted(), Snoozed(0.0)]),
)
keying = {
    "mode": st.sampled_from(["replace", "preserve_run_at", "unsafe_dedupe", "remove"]),
    "key": st.sampled_from(["a", "b"]),
    "queue": queues,
}
sweeping = {"effect": st.sampled_from(["requeue", "return", "fail"]), "locks": st.booleans()}
places = st.fixed_dictionaries({"queue": queues, "key": st.sampled_from([None, "a", None, "b"])})


def _step(name: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.fixed_dictionaries(given))


STEPS = [
    (6, _step("go_on", pick=picks)),
    (3, _step("end", pick=picks, commits=st.booleans())),
    (4, _step("claim", **workers, **searching, **stopping, lends=st.integers(0, 2))),
    (2, _step("complete", **settling)),
    (2, _step("give_back", **settling, outcome=outcomes)),
    (2, _step("renew", **workers, first=picks, count=counts, **stopping)),
    (2, _step("use_key", **others, **keying, **ending)),
    (2, _step("use_job", **others, how=st.sampled_from([*USES_OF_JOBS]), pick=picks, **holding)),
    (3, _step("sweep", **workers, **sweeping, **ending, **stopping)),
    (3, _step("add", queue=queues)),
    (1, _step("claim_unheard", **workers, **searching, **stopping)),
    (1, _step("look_for_lost_claims", **workers, **stopping)),
    (1, _step("mark", **workers, first=picks, count=counts, **stopping)),
    (1, _step("check_handled", **settling)),
    (2, _step("use_queue", **others, how=st.sampled_from([*USES_OF_QUEUES]), queue=st.sampled_from("qr"), **holding)),
    (1, _step("complete_by_handler", **others, **workers, pick=picks, **ending, **stopping)),
    (1, _step("forget_worker", **workers, **ending, **stopping)),
]
steps = st.one_of(*(step for weight, step in STEPS for _ in range(weight)))


class Interleavings(RuleBasedStateMachine):
    """One history."""

    def __init__(self, cast: Cast, witness: Counter[str]) -> None:
        super().__init__()
        self.history = History(cast, witness)
        self.commits_at_the_end = True
        self._taken: list[Step] = []

    @initialize(
        jobs=st.lists(places, min_size=3, max_size=7),
        wanted=st.tuples(*[counts] * WORKERS),
        commits_at_the_end=st.booleans(),
    )
    def begin(self, jobs: Sequence[Mapping[str, Any]], wanted: Sequence[int], commits_at_the_end: bool) -> None:
        """Let each worker claim some of the jobs."""
        self.history.witness["histories"] += 1
        self.commits_at_the_end = commits_at_the_end
        for place in jobs:
            self.history.add(**place)
        for worker, count in zip(self.history.workers, wanted, strict=True):
            self.history.claim(worker, wanted=count)

    @rule(step=steps)
    def take(self, step: Step) -> None:
        """Take a step, if its actor can."""
        name, given = step[0], {**step[1]}
        actors: list[Worker | Other] = []
        if "other" in given:
            actors.append(self.history.others[given.pop("other")])
        if "worker" in given:
            actors.append(self.history.workers[given.pop("worker")])
        count = self.history.witness["steps"]
        try:
            getattr(self, f"_{name}")(*actors, **given)
        except AssertionError as error:
            self._explain(error, step)
            raise
        if self.history.witness["steps"] > count:
            self._taken.append(step)

    def teardown(self) -> None:
        if self.history.is_sound:
            try:
                self.history.finish(commits=self.commits_at_the_end)
            except AssertionError as error:
                self._explain(error)
                raise

    def _explain(self, error: BaseException, *others: Step) -> None:
        """Tell of the steps that were taken; many of those that were drawn were not."""
        error.add_note("\n".join(["Steps that were taken:", *map(str, (*self._taken, *others))]))

    # Steps by chance

    def _go_on(self, *, pick: int) -> None:
        if (errand := _picked(self.history.stopped, pick)) is not None:
            self.history.go_on(errand.line)

    def _end(self, *, pick: int, commits: bool) -> None:
        if (other := _picked(self.history.open_others, pick)) is not None:
            self.history.end(other, commits=commits)

    def _add(self, *, queue: str | None) -> None:
        self.history.add(queue=queue)

    def _claim(self, worker: Worker, *, search: str, lends: int, **given: Any) -> None:
        if worker.claiming.is_idle:
            self.history.claim(worker, search=ClaimStatement[search], lent=worker.plain[:lends], **given)

    def _claim_unheard(self, worker: Worker, *, search: str, **given: Any) -> None:
        if worker.claiming.is_idle and worker.cut_off.is_idle:
            self.history.claim_unheard(worker, search=ClaimStatement[search], **given)

    def _look_for_lost_claims(self, worker: Worker, **given: Any) -> None:
        if worker.suspicion and worker.claiming.is_idle and not worker.is_renewing:
            self.history.look_for_lost_claims(worker, **given)

    def _renew(self, worker: Worker, *, first: int, count: int, **given: Any) -> None:
        claims = _some(worker.unsettled, first, count)
        if worker.aside.is_idle and not worker.is_looking and claims:
            self.history.renew(worker, claims, **given)

    def _mark(self, worker: Worker, *, first: int, count: int, **given: Any) -> None:
        fresh = [claim for claim in worker.running if not claim.later_tokens]
        if worker.aside.is_idle and (claims := _some(fresh, first, count)):
            self.history.mark(worker, claims, **given)

    def _complete(self, worker: Worker, *, first: int, count: int, **given: Any) -> None:
        if worker.completing.is_idle and (claims := _some(worker.running, first, count)):
            self.history.complete(worker, claims, **given)

    def _give_back(self, worker: Worker, *, first: int, count: int, **given: Any) -> None:
        if worker.giving_back.is_idle and (claims := _some(worker.running, first, count)):
            self.history.give_back(worker, claims, **given)

    def _check_handled(self, worker: Worker, *, first: int, count: int, **given: Any) -> None:
        if worker.giving_back.is_idle and (claims := _some(worker.handled, first, count)):
            self.history.check_handled(worker, claims, **given)

    def _use_key(self, other: Other, **given: Any) -> None:
        if other.line.is_idle:
            self.history.use_key(other, **given)

    def _use_job(self, other: Other, *, pick: int, **given: Any) -> None:
        if (job := _picked(self._jobs(), pick)) is not None and other.line.is_idle:
            self.history.use_job(other, job_id=job.id, **given)

    def _use_queue(self, other: Other, **given: Any) -> None:
        if other.line.is_idle:
            self.history.use_queue(other, **given)

    def _complete_by_handler(self, other: Other, worker: Worker, *, pick: int, **given: Any) -> None:
        if (claim := _picked(worker.running, pick)) is not None and other.line.is_idle:
            self.history.complete_by_handler(other, worker, claim, **given)

    def _sweep(self, worker: Worker, **given: Any) -> None:
        if self.history.sweeper.line.is_idle:
            self.history.sweep(worker, **given)

    def _forget_worker(self, worker: Worker, **given: Any) -> None:
        if self.history.sweeper.line.is_idle:
            self.history.forget_worker(worker, **given)

    def _jobs(self) -> list[Job]:
        """All jobs, claimed ones first."""
        return sorted(self.history.ledger.tables.jobs.values(), key=lambda job: job.locked_by is None)


def _picked(things: Sequence[T], pick: int) -> T | None:
    return things[pick % len(things)] if things else None


def _some(things: Sequence[T], first: int, count: int) -> Sequence[T]:
    return things[first % len(things) :][:count] if things else ()
