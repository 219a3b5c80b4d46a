"""The checker of chaos runs finds what it is meant to find, and nothing else."""

from __future__ import annotations

import pytest
from benchmarks.chaos.checker import STATEMENTS, judge
from benchmarks.chaos.past import translated
from benchmarks.kill.checker import story
from benchmarks.kill.looking import SCHEMA, deadlocks_in

from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style
from ferryman.queries.inventory import find_query
from tests.proof.forging import ForgedChaos


@pytest.fixture
def past() -> ForgedChaos:
    return ForgedChaos()


def test_jobs_that_run_once_are_fine(past: ForgedChaos) -> None:
    for number in (1, 2, 3):
        past.add(number)
        past.complete(number, 7, queue="q")

    assert past.breaches() == []


def test_a_job_that_stays_locked_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.left(1, worker="w7")
    past.operate("failed by hand", 1)

    assert past.breaches() == ["job 101 stayed locked by w7"]


def test_a_queue_that_stays_locked_is_found(past: ForgedChaos) -> None:
    past.note("locked", queue="q")

    assert past.breaches() == ["queue 'q' stayed locked"]


def test_a_dead_worker_that_stays_registered_is_found(past: ForgedChaos) -> None:
    past.note("over", workers=["w7"], sessions=0)

    assert past.breaches() == ["worker w7 stayed registered"]


def test_a_job_that_nobody_ran_is_lost(past: ForgedChaos) -> None:
    past.add(1, key="k")

    assert past.breaches() == ["job 101 was lost: it is gone, and its last run did not end"]


def test_a_job_that_vanished_after_it_was_swept_is_lost(past: ForgedChaos) -> None:
    past.add(1)
    run = past.start(1, 7)
    past.end(run)
    past.kill(7)
    past.sweep(run)

    assert past.breaches() == ["job 101 was lost: it is gone, and its last run did not end"]


def test_a_job_that_will_never_be_claimed_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.left(1, attempts=1)

    assert past.breaches() == ["job 101 is still there (1 of 25 attempts)"]


def test_two_runs_at_once_in_a_queue_are_found(past: ForgedChaos) -> None:
    past.add(1)
    past.add(2)
    first = past.start(1, 7, queue="q")
    past.complete(2, 8, queue="q")
    past.end(first)
    past.settle(first)

    assert past.breaches() == ["queue 'q' ran jobs 101 and 102 at once"]


def test_a_queue_is_free_once_a_handler_has_completed_its_job_in_a_transaction(past: ForgedChaos) -> None:
    past.add(1)
    past.add(2)
    first = past.start(1, 7, queue="q")
    past.commit(first)
    past.complete(2, 8, queue="q")
    past.end(first)
    past.settle(first)

    assert past.breaches() == []


def test_a_transaction_that_was_not_committed_frees_no_queue(past: ForgedChaos) -> None:
    past.add(1)
    past.add(2)
    first = past.start(1, 7, queue="q")
    past.commit(first, status="aborted")
    past.complete(2, 8, queue="q")
    past.end(first, "raised")
    past.complete(1, 8, attempt=2)

    assert past.breaches() == ["queue 'q' ran jobs 101 and 102 at once"]


def test_a_job_that_its_handler_completed_is_done_although_the_worker_was_killed(past: ForgedChaos) -> None:
    past.add(1)
    past.commit(past.start(1, 7))
    past.kill(7)

    assert past.breaches() == []


def test_a_job_that_runs_after_its_handler_completed_it_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.commit(past.start(1, 7))
    past.kill(7)
    past.complete(1, 8)

    assert "job 101 was completed by its handler, and claimed after that" in past.breaches()


def test_a_transaction_that_completes_a_job_which_was_swept_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.note("freezing", of=7)
    lost = past.start(1, 7)
    past.sweep(lost)
    past.commit(lost)

    assert past.breaches() == ["job 101 was completed in a transaction of w7, from which it had been taken"]


@pytest.mark.parametrize("event", ["completed by hand", "removed"])
def test_a_job_that_an_operator_deleted_is_not_lost(past: ForgedChaos, event: str) -> None:
    past.add(1, key="k")
    past.operate(event, 1)

    assert past.breaches() == []


def test_a_job_that_runs_after_an_operator_deleted_it_is_found(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.operate("removed", 1)
    past.complete(1, 7)

    assert past.breaches() == ["job 101 was removed, and claimed after that"]


def test_what_an_operator_did_and_undid_explains_nothing(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.act({"event": "removed", "job": 101}, status="aborted")

    assert past.breaches() == ["job 101 was lost: it is gone, and its last run did not end"]


def test_a_job_that_runs_after_an_operator_failed_it_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.operate("failed by hand", 1)
    past.complete(1, 7)

    assert past.breaches() == ["job 101 was failed by hand, and claimed after that"]


def test_a_job_that_was_failed_by_hand_may_run_once_its_key_was_used_again(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.operate("failed by hand", 1)
    past.add(2, key="k", job=101, revision=1)
    past.complete(2, 7, job=101)

    assert past.breaches() == []


def test_a_job_that_an_operator_restarts_may_run_again(past: ForgedChaos) -> None:
    past.add(1)
    past.operate("failed by hand", 1)
    past.operate("restarted", 1)
    past.complete(1, 7)

    assert past.breaches() == []


@pytest.mark.parametrize("status", ["aborted", None])
def test_a_job_that_runs_although_its_transaction_was_not_committed_is_found(
    past: ForgedChaos, status: str | None
) -> None:
    addition = {"event": "adding", "number": 1, "task": "on_loop", "key": None, "max_attempts": 25}
    past.act({**addition, "job": 101, "revision": 0, "mode": None}, status=status)
    past.complete(1, 7)

    assert past.breaches() == ["job 101 ran, and was never added"]


def test_a_job_that_was_overwritten_while_it_waited_need_not_run(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.add(2, key="k", job=101, revision=1)
    past.complete(2, 7, job=101)

    assert past.breaches() == []


def test_a_job_that_runs_after_it_was_overwritten_is_found(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.add(2, key="k", job=101, revision=1)
    past.complete(1, 7)

    assert past.breaches() == [
        "job 101 was lost: it is gone, and its last run did not end",
        "job 101 was overwritten, and claimed after that",
    ]


def test_a_job_that_is_left_with_a_payload_that_was_overwritten_is_found(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.add(2, key="k", job=101, revision=1)
    past.operate("failed by hand", 1)
    past.left(1)

    assert past.breaches() == ["job 101 has the payload of number 1, which was overwritten"]


def test_a_job_that_was_retired_while_it_ran_ends_with_that_run(past: ForgedChaos) -> None:
    past.add(1, key="k")
    run = past.start(1, 7)
    past.add(2, key="k")
    past.end(run, "raised")
    past.settle(run, "gave up")
    past.left(1)
    past.complete(2, 7)

    assert past.breaches() == []


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_job_that_is_claimed_after_it_was_retired_is_found(past: ForgedChaos, is_removed: bool) -> None:
    past.add(1, key="k")
    run = past.start(1, 7)
    if is_removed:
        past.operate("retired", 1)
    else:
        past.add(2, key="k")
        past.complete(2, 7)
    past.end(run, "raised")
    past.complete(1, 8, attempt=2)

    how = "removed while it ran" if is_removed else "superseded by 102"
    assert past.breaches() == [f"job 101 was {how}, and claimed after that"]


def test_an_addition_that_its_key_absorbed_never_runs(past: ForgedChaos) -> None:
    past.add(1, key="k", mode="UNSAFE_DEDUPE")
    past.add(2, key="k", mode="UNSAFE_DEDUPE", job=101, revision=1)
    past.complete(1, 7)
    assert past.breaches() == []

    past.complete(2, 7, job=101)
    assert "job 101 ran with a payload that its key should have absorbed" in past.breaches()


def test_a_job_that_failed_for_good_without_a_cause_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.left(1)

    assert past.breaches() == ["job 101 has failed for good without a cause (25 of 25 attempts)"]


def test_a_snooze_uses_no_attempt(past: ForgedChaos) -> None:
    past.add(1)
    past.end(past.start(1, 7), "snoozed")
    past.complete(1, 8)
    assert past.breaches() == []

    past.add(2)
    past.end(past.start(2, 7), "snoozed")
    past.complete(2, 8, attempt=2)
    assert past.breaches() == ["job 102 had attempt 2 where its past explains 1"]


def test_a_needless_refusal_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.complete(1, 7)
    past.note("refused", process=7, job=101, worker="w7", outcome="COMPLETE")

    assert past.breaches() == ["worker w7 was refused job 101, which nobody had taken from it"]


def test_crashes_of_a_job_that_was_overwritten_count_together(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.crash(1, 7)
    past.crash(1, 8)
    past.add(2, key="k", job=101, revision=1)
    past.crash(2, 9, "poisoned", job=101)
    past.left(2, job=101)

    assert past.breaches() == []


def test_crashes_of_a_job_that_was_retired_count_when_it_is_restarted(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.crash(1, 7)
    run = past.start(1, 8)
    past.operate("retired", 1)
    past.kill(8)
    past.sweep(run, "superseded", attempt=25)
    past.operate("restarted", 1)
    past.crash(1, 9, "poisoned")
    past.left(1)

    assert past.breaches() == []


def test_poison_too_early_is_found(past: ForgedChaos) -> None:
    past.add(1)
    past.crash(1, 7, "poisoned")
    past.left(1)

    assert past.breaches() == ["job 101 was poisoned after 1 crashes"]


def log_of(statement: str) -> str:
    """As PostgreSQL tells of a deadlock between this statement and a neighbour's."""
    shown = statement[:1000].replace("\n", "\n\t")
    return f"""\
2026-01-01 00:00:00.000 UTC [3] other LOG:  something else
2026-01-01 00:00:00.000 UTC [1] mine ERROR:  deadlock detected
2026-01-01 00:00:00.000 UTC [1] mine DETAIL:  Process 1 waits for ShareLock on transaction 7; blocked by process 2.
\tProcess 2 waits for ShareLock on transaction 8; blocked by process 1.
\tProcess 1: select 1
\tProcess 2: {shown}
2026-01-01 00:00:00.000 UTC [1] mine HINT:  See server log for query details.
2026-01-01 00:00:00.000 UTC [1] mine STATEMENT:  select 1
2026-01-01 00:00:00.000 UTC [4] other ERROR:  deadlock detected
"""


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_deadlock_that_names_a_statement_of_a_worker_is_found(past: ForgedChaos, name: str) -> None:
    statement = find_query(name).statement.text(SchemaName(SCHEMA), Style.NUMBERED)
    [text] = deadlocks_in(log_of(statement), "mine")
    past.note("deadlock", text=text)

    [breach] = past.breaches()
    assert breach.startswith("a deadlock with ")
    assert name in breach


def test_a_deadlock_among_neighbours_is_no_breach(past: ForgedChaos) -> None:
    [text] = deadlocks_in(log_of(f"select * from {SCHEMA}.add_jobs($1)"), "mine")
    past.note("deadlock", text=text)

    assert past.breaches() == []


def test_the_story_of_a_job_tells_what_neighbours_did_to_it(past: ForgedChaos) -> None:
    past.add(1, key="k")
    past.operate("rescheduled", 1)

    [breach] = judge(past.over()).breaches
    assert breach.number == 1
    told = "\n".join(story(translated(past.over()), 1))
    assert "added" in told
    assert "rescheduled" in told
