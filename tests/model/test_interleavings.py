"""Claims and settlements under interleaving: each lock is known to the worker that holds it, whatever waits for what.

Random histories are the same each time but for the order in which two that wait for one row get it. For a proof with
more of them, new ones each time:

    FERRYMAN_MODEL_HISTORIES=20000 pytest tests/model/test_interleavings.py
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from ferryman.queries.claim import ClaimStatement
from ferryman.worker.settling import writers
from ferryman.worker.settling.outcomes import Unstarted
from tests.model.interleaving_actors import FAILED
from tests.model.interleaving_history import Cast, History
from tests.model.interleaving_lines import Conductor, Gate
from tests.model.interleaving_machine import Interleavings
from tests.model.test_histories import MORE_HISTORIES, USUAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.worker.settling.outcomes import Outcome

HISTORIES_OF_A_ROUND = 10
"""Hypothesis has fresh ideas for so many, and varies them from then on."""
ROUNDS = (MORE_HISTORIES or 40) // HISTORIES_OF_A_ROUND
MOST_ROUNDS = 4 * ROUNDS
SETTINGS = settings(
    USUAL,
    max_examples=HISTORIES_OF_A_ROUND,
    stateful_step_count=60,
    derandomize=not MORE_HISTORIES,
    print_blob=bool(MORE_HISTORIES),
)
OFTEN = {
    "waited", "stopped", "claimed", "done", "refused", "held up", "completed in passing", "swept", "may start", "lost",
    "renewed", "renewal: busy", "renewal: gone", "lost claims given back", "lost claims held up",
}  # fmt: skip

pytestmark = pytest.mark.claims


@pytest.fixture
def cast(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cast]:
    # A settlement waits for as long as it takes: with a limit, real time would decide.
    monkeypatch.setattr(writers, "PATIENCE", None)
    with Conductor(database) as conductor:
        yield Cast(conductor)


@pytest.fixture
def history(cast: Cast) -> History:
    return History(cast, Counter())


@pytest.mark.timeout(0 if MORE_HISTORIES else 1800)  # far more than the busiest machine has taken
def test_each_lock_is_known_to_the_worker_that_holds_it(cast: Cast) -> None:
    witness: Counter[str] = Counter()

    def histories() -> Interleavings:
        return Interleavings(cast, witness)

    for number in range(MOST_ROUNDS):
        told: Any = histories if MORE_HISTORIES else seed(number)(histories)
        run_state_machine_as_test(told, settings=SETTINGS)
        if number + 1 >= ROUNDS and {what for what, count in witness.items() if count} >= OFTEN:
            return
    pytest.fail(f"something did not happen: {witness}")


# Histories that were once seen to go wrong, told step by step


@pytest.mark.parametrize("outcome", [FAILED, Unstarted()], ids=["failed", "unstarted"])
@pytest.mark.parametrize("mode", ["replace", "preserve_run_at", "unsafe_dedupe", "remove"])
def test_a_job_is_given_back_although_its_key_was_used_meanwhile(history: History, mode: str, outcome: Outcome) -> None:
    worker, other = history.workers[0], history.others[0]
    history.add(key="a")
    history.claim(worker)
    history.use_key(other, mode, "a")
    history.give_back(worker, worker.known, outcome)
    assert not worker.giving_back.is_idle
    history.end(other, commits=True)
    assert history.witness["done"] == 1
    history.finish()


@pytest.mark.parametrize("gives_back", [False, True])
@pytest.mark.parametrize("stop", [Gate.SNAPSHOT, Gate.JOBS])
def test_a_late_settlement_leaves_a_queue_alone_that_has_changed_hands(
    history: History, stop: Gate, gives_back: bool
) -> None:
    late, next_one = history.workers
    history.add(queue="q")
    history.claim(late)
    if gives_back:
        history.give_back(late, late.known, stop=stop)
    else:
        history.complete(late, late.known, stop=stop)
    history.sweep(late, ends=True)
    history.claim(next_one)
    history.go_on(late.giving_back if gives_back else late.completing)
    assert history.witness["refused"] == 1
    assert len(next_one.known) == 1
    history.finish()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("stop", [Gate.SNAPSHOT, Gate.JOBS])
@pytest.mark.parametrize("search", [ClaimStatement.FRONT, ClaimStatement.BY_TASK])
def test_a_claim_leaves_a_queue_alone_whose_waiting_job_has_moved(
    history: History, search: ClaimStatement, stop: Gate, is_shared: bool
) -> None:
    """A row that several transactions have marked does not tell who they were."""
    worker, [other, *neighbours] = history.workers[0], history.others
    job_id = history.add(queue="q", key="a")
    history.claim(worker, search=search, stop=stop)
    if is_shared:
        for neighbour in neighbours:
            history.use_job(neighbour, "share", job_id)
        history.use_job(other, "change", job_id, ends=True)
        for neighbour in neighbours:
            history.end(neighbour, commits=True)
    else:
        history.use_key(other, "replace", "a", queue="q", ends=True)
    assert not other.is_open
    history.go_on(worker.claiming)
    assert not worker.known
    history.finish()
    history.claim(worker, search=search)
    assert [claim.job_id for claim in worker.known] == [job_id]


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("gives_back", [False, True])
@pytest.mark.parametrize("stop", Gate)
def test_a_job_is_settled_although_its_lock_is_being_renewed(
    history: History, stop: Gate, gives_back: bool, skips: bool
) -> None:
    worker = history.workers[0]
    history.add(queue="q")
    history.claim(worker)
    history.renew(worker, worker.known, stop=stop)
    if gives_back:
        history.give_back(worker, worker.known, skips=skips)
    else:
        history.complete(worker, worker.known, skips=skips)
    history.go_on(worker.aside)
    assert not history.witness["refused"]
    history.finish()
    assert history.witness["done"] == 1


@pytest.mark.parametrize("held", ["job", "queue"])
@pytest.mark.parametrize("gives_back", [False, True])
def test_a_row_that_another_transaction_holds_delays_its_own_job_only(
    history: History, held: str, gives_back: bool
) -> None:
    worker, other = history.workers[0], history.others[0]
    job_id = history.add(queue="q")
    history.add(queue="r")
    history.claim(worker, wanted=2)
    if held == "job":
        history.use_job(other, "lock", job_id)
    else:
        history.use_queue(other, "lock", "q")
    if gives_back:
        history.give_back(worker, worker.known, skips=True)
    else:
        history.complete(worker, worker.known, skips=True)
    assert [claim.job_id for claim in worker.known] == [job_id]
    history.end(other, commits=True)
    history.finish()
    assert history.witness["done"] == 2


def test_a_claim_that_the_worker_never_heard_of_is_given_back_when_its_row_is_free(history: History) -> None:
    worker, other = history.workers[0], history.others[0]
    job_id = history.add(queue="q")
    history.claim_unheard(worker, stop=Gate.JOBS)
    history.look_for_lost_claims(worker)
    history.go_on(worker.cut_off)
    history.use_job(other, "lock", job_id)
    history.look_for_lost_claims(worker)
    assert worker.suspicion
    history.end(other, commits=False)
    history.look_for_lost_claims(worker)
    assert not worker.suspicion
    history.finish()


def test_of_two_claims_of_one_job_only_the_later_may_start(history: History) -> None:
    worker = history.workers[0]
    history.add()
    history.claim(worker)
    history.sweep(worker, "return", ends=True)
    history.claim(worker)
    assert len(worker.known) == 2
    history.mark(worker, worker.known)
    history.finish()


def test_a_job_that_is_gone_is_not_done_while_another_transaction_holds_its_queue(history: History) -> None:
    worker, [other, neighbour, _] = history.workers[0], history.others
    job_id = history.add(queue="q")
    history.claim(worker)
    [claim] = worker.known
    history.complete_by_handler(other, worker, claim, ends=False)
    history.use_job(other, "delete", job_id, ends=True)
    history.use_queue(neighbour, "lock", "q")
    history.check_handled(worker, [claim], skips=True)
    history.finish()


def test_a_queue_whose_lock_is_being_renewed_is_freed_although_its_job_is_deleted(history: History) -> None:
    worker, other = history.workers[0], history.others[0]
    job_id = history.add(queue="q")
    history.claim(worker)
    [claim] = worker.known
    history.renew(worker, [claim], stop=Gate.QUEUES)
    history.use_job(other, "delete", job_id)
    history.complete(worker, [claim])
    history.go_on(worker.aside)
    history.end(other, commits=True)
    history.finish()


@pytest.mark.parametrize("gives_back", [False, True])
def test_a_queue_stays_locked_while_its_job_is(history: History, *, gives_back: bool) -> None:
    worker, other = history.workers[0], history.others[0]
    history.add(queue="q")
    history.claim(worker)
    [claim] = worker.known
    history.use_queue(other, "lock", "q")
    history.renew(worker, [claim], stop=Gate.QUEUES)
    (history.give_back if gives_back else history.complete)(worker, [claim])
    history.go_on(worker.aside)
    history.end(other, commits=False)
    history.finish()


def test_a_sweep_leaves_a_queue_alone_that_was_claimed_anew(history: History) -> None:
    worker, other = history.workers[0], history.others[0]
    job_id = history.add(queue="q")
    history.claim(worker)
    history.use_job(other, "delete", job_id, ends=True)
    history.forget_worker(worker, stop=Gate.QUEUES)
    history.complete(worker, worker.known)
    history.add(queue="q")
    history.claim(worker)
    assert len(worker.known) == 1
    history.go_on(history.sweeper.line)
    history.end(history.sweeper, commits=True)
    history.finish()


@pytest.mark.parametrize("by_handler", [False, True])
def test_a_lost_claim_leaves_a_queue_alone_that_a_later_claim_holds(history: History, *, by_handler: bool) -> None:
    worker = history.workers[0]
    history.add(queue="q")
    history.add(queue="q")
    history.claim(worker)
    history.sweep(worker, "fail", ends=True)
    history.claim(worker)
    lost, current = worker.known
    history.renew(worker, [lost, current])
    if by_handler:
        history.complete_by_handler(history.others[0], worker, lost, ends=True)
    else:
        history.complete(worker, [lost])
    history.finish()
