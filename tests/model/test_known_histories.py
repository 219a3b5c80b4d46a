"""Histories that random ones seldom find, told step by step, with the same model beside them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.jobs import JobKeyMode
from ferryman.worker.settling.outcomes import Completed
from tests.model.machine import Histories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.model_database import ModelDatabase

pytestmark = pytest.mark.claims

DIRECT = {"kind": "direct", "tasks": ("plain", "once"), "on_crash": "requeue", "avoids_resilient": False}
AHEAD = {**DIRECT, "kind": "ahead"}
JOB = {"task": "plain", "queue": None, "priority": 0, "delay": 0, "max_attempts": 25, "is_resilient": False}
ONCE = {**JOB, "task": "once"}


class Teller:
    """Tells a history, and looks at the tables after each step."""

    def __init__(self, model_database: ModelDatabase) -> None:
        self.witness: Counter[str] = Counter()
        self.history = Histories(model_database, self.witness)

    def begin(self, worker: dict[str, Any], *jobs: dict[str, Any]) -> None:
        """The worker has claimed two of the jobs."""
        self("begin", delay=0, max_crashes=3, workers=[worker], jobs=jobs)

    def __call__(self, step: str, **given: Any) -> None:
        getattr(self.history, step)(**given)
        self.history.all_is_as_foretold()


@pytest.fixture
def tell(model_database: ModelDatabase) -> Iterator[Teller]:
    teller = Teller(model_database)
    yield teller
    teller.history.teardown()


def test_a_frozen_worker_loses_what_it_never_started_and_may_not_start_it_later(tell: Teller) -> None:
    tell.begin(AHEAD, {**ONCE, "queue": "q"})
    tell("freeze", pick=0)
    tell("watch", looks=8, sweeps=True)
    assert tell.witness["given back"] == 1
    assert not tell.history.oracle.queues
    assert tell.witness["only unstarted jobs taken"] == 1
    tell("thaw", pick=0, outcome=Completed(0.0), settles=0, beats=True)
    tell("start", pick=0)
    assert tell.witness["start refused"] == 1
    assert tell.witness["learnt that it was swept"] == 0


def test_a_job_that_was_lost_and_claimed_again_in_the_same_name_is_settled_by_its_new_claim_only(tell: Teller) -> None:
    tell.begin(AHEAD, ONCE)
    tell("freeze", pick=0)
    tell("watch", looks=8, sweeps=True)
    tell("thaw", pick=0, outcome=Completed(0.0), settles=0, beats=True)
    tell("claim", pick=0, wanted=1, is_heard=True)
    tell("complete", pick=0, count=1)
    assert (tell.witness["accepted"], tell.witness["refused"]) == (0, 1)
    tell("complete", pick=0, count=1)
    assert (tell.witness["accepted"], tell.witness["refused"]) == (1, 1)


def test_a_job_that_was_lost_and_claimed_again_in_the_same_name_is_started_by_its_new_claim_only(tell: Teller) -> None:
    tell.begin(AHEAD, ONCE)
    tell("freeze", pick=0)
    tell("watch", looks=8, sweeps=True)
    tell("thaw", pick=0, outcome=Completed(0.0), settles=0, beats=True)
    tell("claim", pick=0, wanted=1, is_heard=True)
    tell("start", pick=0)
    assert (tell.witness["start marked"], tell.witness["start refused"]) == (0, 1)
    tell("start", pick=0)
    assert (tell.witness["start marked"], tell.witness["start refused"]) == (1, 1)


def test_a_job_whose_start_was_marked_is_not_given_back(tell: Teller) -> None:
    tell.begin(AHEAD, ONCE)
    tell("start", pick=0)
    tell("freeze", pick=0)
    tell("watch", looks=8, sweeps=True)
    assert tell.witness["given back"] == 0
    tell("watch", looks=12, sweeps=True)
    assert tell.witness["fail"] == 1
    tell("thaw", pick=0, outcome=Completed(0.0), settles=1, beats=True)
    assert tell.witness["refused"] == 1
    assert tell.witness["learnt that it was swept"] == 1


def test_a_worker_that_beats_between_the_last_look_and_the_sweep_keeps_its_jobs(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    tell("freeze", pick=0)
    tell("watch", looks=12, sweeps=False)
    tell("sweep", batch=500, beats_first=True)
    assert tell.witness["seen dead and alive again"] == 1
    tell("complete", pick=0, count=1)
    assert tell.witness["accepted"] == 1


def test_an_outage_makes_nobody_dead(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    tell("watch", looks=3, sweeps=True)
    tell("outage", seconds=400, was_restarted=True, are_back=False)
    tell("watch", looks=12, sweeps=True)
    tell("sweep_by_age", batch=500, threshold=None, is_dry=True)
    tell("complete", pick=0, count=1)
    assert tell.witness["accepted"] == 1


def test_the_time_before_an_outage_does_not_count_for_a_lost_session(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    tell("crash", pick=0)
    tell("watch", looks=2, sweeps=True)
    tell("outage", seconds=5, was_restarted=False, are_back=True)
    tell("watch", looks=2, sweeps=True)
    assert tell.witness["requeue"] == 0
    tell("watch", looks=1, sweeps=True)
    assert tell.witness["requeue"] == 1


def test_what_was_claimed_without_hearing_of_it_is_given_back(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    tell("complete", pick=0, count=1)
    tell("add", **JOB)
    tell("claim", pick=0, wanted=1, is_heard=False)
    tell("clock", seconds=1, is_heard=True)
    assert tell.witness["claims given back unheard"] == 1
    tell("complete", pick=0, count=1)
    assert tell.witness["accepted"] == 2


def test_a_job_that_kills_three_workers_fails_for_good_until_somebody_lets_it_run_again(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    for _ in range(2):
        _crash(tell)
        tell("join", **DIRECT)
        tell("start", pick=0)
    _crash(tell)
    assert (tell.witness["requeue"], tell.witness["poisoned"]) == (2, 1)
    tell("reschedule", pick=0)
    tell("join", **DIRECT)
    _crash(tell)
    assert (tell.witness["requeue"], tell.witness["poisoned"]) == (3, 1)


def test_a_suspect_that_was_claimed_and_not_started_is_not_blamed(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    for _ in range(5):
        _crash(tell)
        tell("join", **DIRECT)
    assert (tell.witness["requeue"], tell.witness["given back"]) == (1, 4)


def test_crashes_count_no_longer_than_the_window(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    for _ in range(4):
        _crash(tell)
        tell("clock", seconds=80 * 3600, is_heard=True)
        tell("join", **DIRECT)
        tell("start", pick=0)
    assert (tell.witness["requeue"], tell.witness["poisoned"]) == (4, 0)


def test_a_bystander_that_was_only_claimed_ahead_is_never_poisoned(tell: Teller) -> None:
    tell.begin(AHEAD, JOB)
    for _ in range(5):
        _crash(tell)
        tell("join", **AHEAD)
    assert (tell.witness["requeue"], tell.witness["given back"]) == (1, 4)


def test_a_job_that_was_replaced_by_a_transaction_older_than_its_claim_stays_superseded(tell: Teller) -> None:
    tell.begin(DIRECT, JOB)
    tell("complete", pick=0, count=1)
    keyed = {"key": "a", "mode": JobKeyMode.REPLACE}
    tell("add_with_key", **keyed, begun_before=0, **JOB)
    tell("claim", pick=0, wanted=1, is_heard=True)
    tell("add_with_key", **keyed, begun_before=5, **JOB)
    _crash(tell)
    assert tell.witness["superseded"] == 1


def test_a_queue_whose_job_was_deleted_is_freed_by_its_owner_or_by_his_death(tell: Teller) -> None:
    tell.begin(DIRECT, {**JOB, "queue": "q"})
    tell("delete_row", pick=0)
    tell("complete", pick=0, count=1)
    assert not tell.history.oracle.queues
    tell("add", **{**JOB, "queue": "q"})
    tell("claim", pick=0, wanted=1, is_heard=True)
    tell("delete_row", pick=0)
    _crash(tell)
    assert not tell.history.oracle.queues


def _crash(tell: Teller) -> None:
    """The only worker dies, and somebody sees it soon."""
    tell("crash", pick=0)
    tell("watch", looks=3, sweeps=True)
