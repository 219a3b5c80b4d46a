"""`ferryman jobs complete`, `fail`, `reschedule`, `retry` and `remove`: what is changed, and what is not and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import SyncClient
    from tests.support.commands import Ran


@pytest.fixture(autouse=True)
def _three_jobs_of_which_2_is_running(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    for number in (1, 2, 3):
        sync_client.add_raw_job("mail", {}, JobSpec(job_key=f"key {number}"))
    connection.execute(
        "update graphile_worker._private_jobs set locked_at = now(), locked_by = 'w1', attempts = 1 where id = 2"
    )


def test_complete_deletes_what_it_can_and_says_why_not_the_rest(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "complete", 1, 2, 3, 99)

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "Completed 2 jobs: 1, 3.",
        "Skipped 2: worker w1 is running it.",
        "Skipped 99: there is no such job. It was completed or removed, or never existed.",
    ]
    assert ferryman("jobs", "counts", "--json").json["total"] == 1


def test_a_change_as_json_lists_both(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "complete", 3, 2, 99, "--json")

    assert [job["id"] for job in ran.json["jobs"]] == [3]
    assert ran.json["skipped"] == [
        {"id": 2, "reason": "running", "locked_by": "w1"},
        {"id": 99, "reason": "missing", "locked_by": None},
    ]


@pytest.mark.parametrize("arguments", [["complete"], ["fail"], ["reschedule", "--priority", "1"]])
def test_the_exit_code_is_1_when_nothing_was_changed(ferryman: Callable[..., Ran], arguments: list[str]) -> None:
    ran = ferryman("jobs", *arguments, 2)

    assert ran.code == 1
    assert ran.out == "Skipped 2: worker w1 is running it.\n"


def test_fail_uses_up_all_attempts_and_keeps_the_reason(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "fail", 1, "--reason", "customer left", "--json")

    job = ran.json["jobs"][0]
    assert (job["state"], job["last_error"]) == ("failed", "customer left")


def test_reschedule_changes_only_what_is_given(ferryman: Callable[..., Ran]) -> None:
    before = ferryman("jobs", "show", 1, "--json").json
    ferryman("jobs", "fail", 1)

    ran = ferryman("jobs", "reschedule", 1, "--attempts", 0, "--max-attempts", 5, "--json")

    job = ran.json["jobs"][0]
    assert (job["state"], job["attempts"], job["max_attempts"], job["priority"]) == ("ready", 0, 5, 0)
    assert before["run_at"] == job["run_at"]


def test_reschedule_takes_a_time_and_a_priority(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "reschedule", 1, 3, "--run-at", "+1d", "--priority", "-7", "--json")

    assert [(job["state"], job["priority"]) for job in ran.json["jobs"]] == [("scheduled", -7)] * 2


def test_reschedule_wants_to_know_what_to_change(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "reschedule", 1)

    assert ran.code == 2
    assert "nothing to change" in ran.err


def test_reschedule_says_that_a_failed_job_will_not_run(ferryman: Callable[..., Ran]) -> None:
    ferryman("jobs", "fail", 1)

    assert ferryman("jobs", "reschedule", 1, 3, "--run-at", "now").out.splitlines() == [
        "Rescheduled 2 jobs: 1, 3.",
        "Job 1 will not run: it has failed and used 25 of 25 attempts. `ferryman jobs retry 1` runs it again.",
    ]


def test_retry_lets_failed_jobs_run_again_and_says_why_not_the_rest(ferryman: Callable[..., Ran]) -> None:
    ferryman("jobs", "fail", 1)

    assert ferryman("jobs", "retry", 1, 2, 3, 99).out.splitlines() == [
        "Retrying 1 job: 1.",
        "Skipped 2: worker w1 is running it.",
        "Skipped 3: it has not failed for good, so it needs no retry.",
        "Skipped 99: there is no such job. It was completed or removed, or never existed.",
    ]


def test_retry_takes_all_failed_jobs_of_a_task(ferryman: Callable[..., Ran]) -> None:
    ferryman("jobs", "fail", 1, 3)

    assert ferryman("jobs", "retry", "--task", "other", "--state", "failed").code == 1
    ran = ferryman("jobs", "retry", "--task", "mail", "--state", "failed", "--json")
    assert [(job["id"], job["attempts"], job["state"]) for job in ran.json["jobs"]] == [
        (1, 0, "ready"),
        (3, 0, "ready"),
    ]
    assert ferryman("jobs", "retry").code == ferryman("jobs", "retry", 1, "--state", "failed").code == 2


def test_remove_deletes_the_job_that_has_the_key(ferryman: Callable[..., Ran]) -> None:
    assert ferryman("jobs", "remove", "key 1").out == "Removed job 1.\n"
    assert ferryman("jobs", "show", 1).code == 1


def test_remove_leaves_a_running_job_to_finish_and_says_so(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "remove", "key 2")

    assert ran.code == 0
    assert "Job 2 is running on worker w1 and will finish. It lost its key" in ran.out
    assert ferryman("jobs", "show", 2, "--json").json["key"] is None


def test_remove_of_an_unknown_key_is_an_error(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "remove", "nobody")

    assert ran.code == 1
    assert "no job has the key 'nobody'; nothing was changed." in ran.err
