"""The checker finds what it is meant to find, and nothing else."""

from __future__ import annotations

import pytest

from tests.proof.forging import Forged


@pytest.fixture
def past() -> Forged:
    return Forged()


def test_jobs_that_run_once_are_fine(past: Forged) -> None:
    for number in (1, 2, 3):
        past.add(number)
        past.complete(number, 7, queue="q")

    assert past.breaches() == []


def test_a_second_run_is_fine_after_a_kill(past: Forged) -> None:
    past.add(1)
    past.crash(1, 7)
    past.complete(1, 8)

    assert past.breaches() == []


def test_a_retry_is_fine_after_an_error(past: Forged) -> None:
    past.add(1)
    run = past.start(1, 7)
    past.end(run, "raised")
    past.settle(run, "gave back")
    past.complete(1, 7, attempt=2)

    assert past.breaches() == []


def test_a_job_that_nobody_ran_is_lost(past: Forged) -> None:
    past.add(1)

    assert past.breaches() == ["job 101 was lost: it is gone, and its last run did not end"]


def test_a_job_that_vanished_with_its_worker_is_lost(past: Forged) -> None:
    past.add(1)
    past.start(1, 7)
    past.kill(7)

    assert past.breaches() == ["job 101 was lost: it is gone, and its last run did not end"]


def test_a_job_that_stays_locked_is_found(past: Forged) -> None:
    past.add(1)
    past.left(1, attempts=1, worker="w7")

    assert past.breaches() == ["job 101 is still there (1 of 25 attempts)"]


def test_a_job_that_failed_for_good_without_a_cause_is_found(past: Forged) -> None:
    past.add(1)
    past.left(1)

    assert past.breaches() == ["job 101 is still there (25 of 25 attempts)"]


def test_a_run_of_what_was_rolled_back_is_found(past: Forged) -> None:
    past.add(1, is_undone=True)
    past.complete(1, 7)

    assert past.breaches() == ["job 101 ran, and was never added"]


def test_a_settlement_under_a_claim_that_was_swept_is_found(past: Forged) -> None:
    past.add(1)
    past.note("freezing", of=7)
    lost = past.start(1, 7)
    past.sweep(lost)
    past.complete(1, 8)
    past.end(lost)
    past.settle(lost)

    assert past.breaches() == [
        "job 101 was settled by w7, from which it had been taken",
        "job 101 was completed by w7, which was not its last owner",
        "job 101 was completed 2 times",
    ]


def test_a_failure_told_for_a_claim_that_was_swept_is_found(past: Forged) -> None:
    past.add(1)
    past.note("freezing", of=7)
    lost = past.start(1, 7)
    past.sweep(lost)
    past.complete(1, 8)
    past.settle(lost, "gave back")

    assert past.breaches() == ["job 101 was settled by w7, from which it had been taken"]


def test_a_second_run_without_a_fault_is_found(past: Forged) -> None:
    past.add(1)
    run = past.start(1, 7)
    past.end(run)
    past.complete(1, 8)

    assert past.breaches() == [f"job 101 ran again although nothing had happened to run {run['claim']}"]


def test_a_second_run_is_fine_after_one_that_was_given_back_at_a_shutdown(past: Forged) -> None:
    """A thread may go on for a moment."""
    past.add(1)
    run = past.start(1, 7)
    past.note("terminating", of=7)
    past.settle(run, "returned")
    past.end(run)
    past.complete(1, 8)

    assert past.breaches() == []


def test_a_run_that_was_given_back_by_a_worker_that_nobody_told_to_end_is_found(past: Forged) -> None:
    past.add(1)
    run = past.start(1, 7)
    past.settle(run, "returned")
    past.end(run)
    past.complete(1, 8)

    assert past.breaches() == [f"job 101 ran again although nothing had happened to run {run['claim']}"]


def test_a_sweep_of_a_worker_that_nothing_had_happened_to_is_found(past: Forged) -> None:
    past.add(1)
    run = past.start(1, 7)
    past.sweep(run)
    past.complete(1, 8)

    assert past.breaches() == [f"job 101 ran again although nothing had happened to run {run['claim']}"]


def test_two_runs_under_one_claim_are_found(past: Forged) -> None:
    past.add(1)
    past.complete(1, 7)
    [first] = [line for line in past.lines if line["event"] == "started"]
    past.lines.append({**first, "run": "another", "at": first["at"] + 1})
    past.lines.append({**first, "event": "ended", "run": "another", "at": first["at"] + 2})

    assert "job 101 ran 2 times under one claim" in past.breaches()


def test_a_needless_refusal_is_found(past: Forged) -> None:
    past.add(1)
    past.complete(1, 7)
    past.note("refused", process=7, job=101, worker="w7", outcome="COMPLETE")

    assert past.breaches() == ["worker w7 was refused job 101, which nobody had taken from it"]


def test_a_refusal_that_came_before_the_sweep_is_found(past: Forged) -> None:
    """As if a worker had given up a job that was still its own, and was killed later."""
    past.add(1)
    run = past.start(1, 7)
    past.end(run, "raised")
    past.note("refused", process=7, job=101, worker="w7", outcome="FAIL")
    past.wait(1)
    past.kill(7)
    past.sweep(run)
    past.complete(1, 8)

    assert past.breaches() == ["worker w7 was refused job 101, which nobody had taken from it"]


def test_a_queue_that_runs_two_jobs_at_once_is_found(past: Forged) -> None:
    past.add(1)
    past.add(2)
    first = past.start(1, 7, queue="q")
    past.complete(2, 8, queue="q")
    past.end(first)
    past.settle(first)

    assert past.breaches() == ["queue 'q' ran jobs 101 and 102 at once"]


def test_a_long_run_is_seen_beside_each_that_came_meanwhile(past: Forged) -> None:
    for number in (1, 2, 3):
        past.add(number)
    first = past.start(1, 7, queue="q")
    past.complete(2, 8, queue="q")
    past.complete(3, 8, queue="q")
    past.end(first)
    past.settle(first)

    assert len(past.breaches()) == 2


def test_a_zombie_that_goes_on_after_it_was_swept_is_no_breach(past: Forged) -> None:
    past.add(1)
    past.note("freezing", of=7)
    zombie = past.start(1, 7, queue="q")
    past.sweep(zombie)
    second = past.start(1, 8, queue="q")
    past.end(zombie)
    past.end(second)
    past.settle(second)
    past.note("refused", process=7, job=101, worker="w7", outcome="COMPLETE")

    assert past.breaches() == []


@pytest.mark.parametrize("seconds", [0.1, 0.6])
def test_a_thread_may_go_on_beside_the_next_job_of_its_queue_only_after_the_grace_period(
    past: Forged, seconds: float
) -> None:
    past.add(1)
    past.add(2)
    run = past.start(1, 7, queue="q")
    past.note("terminating", of=7)
    past.wait(seconds)
    past.settle(run, "returned")
    past.complete(2, 8, queue="q")
    past.note("died", of=7, code=0)
    past.complete(1, 8, queue="q")

    assert past.breaches() == (["queue 'q' ran jobs 101 and 102 at once"] if seconds < 0.5 else [])


def test_a_queue_that_is_given_away_before_the_sweep_is_found(past: Forged) -> None:
    past.add(1)
    past.note("freezing", of=7)
    frozen = past.start(1, 7, queue="q")
    second = past.start(1, 8, queue="q")
    past.wait(1)
    past.sweep(frozen)
    past.end(second)
    past.settle(second)

    assert "queue 'q' ran jobs 101 and 101 at once" in past.breaches()


@pytest.mark.parametrize(("decision", "attempt"), [("requeue", 2), ("retry", 1), ("retry", 3)])
def test_an_attempt_that_the_past_does_not_explain_is_found(past: Forged, decision: str, attempt: int) -> None:
    past.add(1)
    past.crash(1, 7, decision)
    past.complete(1, 8, attempt=attempt)

    expected = 2 if decision == "retry" else 1
    assert past.breaches() == [f"job 101 had attempt {attempt} where its past explains {expected}"]


def test_an_attempt_beyond_the_limit_is_found(past: Forged) -> None:
    past.add(1)
    past.complete(1, 7)
    [run] = [line for line in past.lines if line["event"] == "started"]
    run["max_attempts"] = 0

    assert past.breaches() == ["job 101 had attempt 1 of 0"]


def test_a_superseded_job_that_is_claimed_again_is_found(past: Forged) -> None:
    past.add(1, key="k")
    past.crash(1, 7)
    past.add(2, key="k")
    past.complete(1, 8)
    past.complete(2, 8)

    assert past.breaches() == ["job 101 was superseded by 102, and claimed after that"]


def test_a_queue_is_free_when_a_sweep_takes_a_superseded_job(past: Forged) -> None:
    """Its attempts were changed while it was held."""
    past.add(1, key="k")
    past.note("freezing", of=7)
    frozen = past.start(1, 7, queue="q")
    past.add(2, key="k")
    past.sweep(frozen, "superseded", attempt=25)
    past.complete(2, 8, queue="q")
    past.end(frozen)
    past.left(1)

    assert past.breaches() == []


def test_a_job_that_runs_after_a_sweep_ended_it_is_found(past: Forged) -> None:
    past.add(1)
    past.crash(1, 7, "fail")
    past.complete(1, 8)

    assert past.breaches() == ["job 101 ran after a sweep had ended it for good"]


def test_poison_after_three_crashes_is_fine(past: Forged) -> None:
    past.add(1)
    past.crash(1, 7)
    past.crash(1, 8)
    past.crash(1, 9, "poisoned")
    past.left(1)

    assert past.breaches() == []


def test_poison_too_early_is_found(past: Forged) -> None:
    past.add(1)
    past.crash(1, 7)
    past.crash(1, 8, "poisoned")
    past.left(1)

    assert past.breaches() == ["job 101 was poisoned after 2 crashes"]


def test_poison_after_a_third_crash_that_a_worker_lived_through_is_fine(past: Forged) -> None:
    past.add(1)
    past.crash(1, 7)
    past.end_child(1, 8)
    past.end_child(1, 8, "gave up", attempt=2)
    past.left(1)
    past.add(2)
    past.end_child(2, 8)
    past.crash(2, 9, "poisoned", attempt=2)  # at its second crash
    past.left(2)

    assert past.breaches() == ["job 102 was poisoned after 2 crashes"]


def test_a_job_that_a_worker_gives_up_at_its_second_crash_is_found(past: Forged) -> None:
    past.add(1)
    past.end_child(1, 7)
    past.end_child(1, 7, "gave up", attempt=2)
    past.left(1)

    assert past.breaches() == ["job 101 is still there (25 of 25 attempts)"]


def test_a_job_that_ends_too_many_child_processes_is_found(past: Forged) -> None:
    past.add(1)
    for attempt in range(1, 5):
        past.end_child(1, 7, attempt=attempt)
    past.complete(1, 7, attempt=5)

    assert past.breaches() == ["job 101 crashed 4 times"]


def test_a_worker_that_dies_at_the_third_crash_after_a_child_leaves_the_job_one_more_chance(past: Forged) -> None:
    """The job did not run alone then, so that death must not be held against it."""
    past.add(1)
    past.end_child(1, 7)
    past.end_child(1, 7, attempt=2)
    past.crash(1, 7, attempt=3)
    past.crash(1, 8, "poisoned", attempt=3)
    past.left(1)

    assert past.breaches() == []


def test_a_fourth_crash_is_found_where_the_second_was_that_of_a_worker(past: Forged) -> None:
    """From then on the job ran alone."""
    past.add(1)
    past.end_child(1, 7)
    past.crash(1, 7, attempt=2)
    past.crash(1, 8, attempt=2)
    past.crash(1, 9, "poisoned", attempt=2)
    past.left(1)

    assert past.breaches() == ["job 101 crashed 4 times"]


def test_a_fifth_crash_is_found_whatever_the_others_were(past: Forged) -> None:
    past.add(1)
    past.end_child(1, 7)
    past.end_child(1, 7, attempt=2)
    past.crash(1, 7, attempt=3)
    past.crash(1, 8, attempt=3)
    past.crash(1, 9, "poisoned", attempt=3)
    past.left(1)

    assert past.breaches() == ["job 101 crashed 5 times"]


def test_a_job_that_survives_too_many_crashes_is_found(past: Forged) -> None:
    past.add(1)
    for process in (7, 8, 9, 10):
        past.crash(1, process)
    past.complete(1, 11)

    assert past.breaches() == ["job 101 crashed 4 times"]


def test_a_queue_that_stays_locked_is_found(past: Forged) -> None:
    past.note("locked", queue="q")

    assert past.breaches() == ["queue 'q' stayed locked"]


def test_a_worker_that_breaks_is_found(past: Forged) -> None:
    past.note("broken", process=7, error="RuntimeError")

    assert past.breaches() == ["worker process 7 broke: RuntimeError"]


def test_a_thawed_worker_that_was_never_refused_is_found(past: Forged) -> None:
    past.add(1)
    past.note("froze", of=7)
    zombie = past.start(1, 7)
    past.sweep(zombie)
    past.complete(1, 8)
    past.end(zombie)

    assert past.breaches(thawed_are_refused=True) == ["thawed worker w7 was never refused job 101"]
