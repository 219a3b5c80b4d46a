"""The checker finds what it is meant to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.history import check

if TYPE_CHECKING:
    from tests.support.history import History


def tell(history: History, *jobs: int) -> None:
    for job in jobs:
        history.note("added", job=job)


def run(history: History, job: int, claim: str = "1", *, queue: str | None = None, **more: Any) -> None:
    facts = {"job": job, "run": f"{job} {claim}", "claim": claim, "worker": "w", "queue": queue, **more}
    history.note("started", **facts)
    history.note("ended", **facts)


def test_a_run_and_a_settlement_for_each_job_are_fine(history: History) -> None:
    tell(history, 1)
    run(history, 1)
    history.note("settled", job=1, claim="1", worker="w")

    check(history)


def test_a_second_run_is_fine_when_the_first_claim_was_taken_away(history: History) -> None:
    tell(history, 1)
    run(history, 1, "1")
    history.note("freed", claims=["1"])
    run(history, 1, "2")

    check(history)


def test_a_lost_job_is_found(history: History) -> None:
    tell(history, 1)
    history.note("started", job=1, run="r", claim="1", worker="w", queue=None)

    with pytest.raises(AssertionError, match="job 1 was lost"):
        check(history)


def test_a_job_that_nobody_added_is_found(history: History) -> None:
    run(history, 1)

    with pytest.raises(AssertionError, match="job 1 was never added"):
        check(history)


def test_a_needless_run_is_found(history: History) -> None:
    tell(history, 1)
    run(history, 1, "1")
    run(history, 1, "2")

    with pytest.raises(AssertionError, match="job 1 ran 2 times, but faults touched it 0 times"):
        check(history)


def test_a_settlement_under_a_lost_claim_is_found(history: History) -> None:
    tell(history, 1)
    run(history, 1, "1")
    history.note("freed", claims=["1"])
    run(history, 1, "2")
    history.note("settled", job=1, claim="1", worker="w")

    with pytest.raises(AssertionError, match="job 1 was settled by w, which did not own it"):
        check(history)


def test_two_settlements_are_found(history: History) -> None:
    tell(history, 1)
    run(history, 1)
    history.note("settled", job=1, claim="1", worker="w")
    history.note("settled", job=1, claim="1", worker="w")

    with pytest.raises(AssertionError, match="job 1 was settled 2 times"):
        check(history)


def test_a_queue_with_two_owners_is_found(history: History) -> None:
    tell(history, 1, 2)
    history.note("started", job=1, run="r", claim="1", worker="w", queue="q")
    run(history, 2, "2", queue="q")
    history.note("ended", job=1, run="r", claim="1", worker="w", queue="q")

    with pytest.raises(AssertionError, match="queue 'q' ran jobs 1 and 2 at once"):
        check(history)
