"""`ferryman unlock` and `ferryman cleanup`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import SyncClient
    from tests.support.commands import Ran


@pytest.fixture
def dead_worker(sync_client: SyncClient, connection: psycopg.Connection) -> str:
    sync_client.add_raw_job("mail")
    sync_client.add_raw_job("mail")
    connection.execute("update graphile_worker._private_jobs set locked_at = now(), locked_by = 'dead'")
    return "dead"


def test_unlock_says_what_it_means_and_asks(ferryman: Callable[..., Ran], dead_worker: str) -> None:
    ran = ferryman("unlock", dead_worker, stdin="n\n")

    assert ran.code == 1
    assert "dead holds jobs 1, 2." in ran.err
    assert "run twice" in ran.err
    assert ferryman("jobs", "counts", "--json").json["running"] == 2


def test_unlock_gives_the_jobs_back(ferryman: Callable[..., Ran], dead_worker: str) -> None:
    ran = ferryman("unlock", dead_worker, "--yes")

    assert ran.code == 0
    assert ran.out == "Unlocked dead: jobs 1, 2 may be claimed again.\n"
    assert ferryman("jobs", "counts", "--json").json["ready"] == 2


def test_unlock_of_a_worker_that_holds_nothing_says_so(ferryman: Callable[..., Ran], dead_worker: str) -> None:
    assert ferryman("unlock", "typo", "--yes").code == 1

    ran = ferryman("unlock", "typo", dead_worker, "--yes", "--json")
    assert ran.code == 0
    assert ran.json["workers"] == [{"id": "typo", "job_ids": []}, {"id": "dead", "job_ids": [1, 2]}]


def test_nobody_to_ask_means_no(ferryman: Callable[..., Ran], dead_worker: str) -> None:
    ran = ferryman("unlock", dead_worker, stdin="")

    assert ran.code == 1
    assert "no answer on standard input, so nothing was changed. To skip the question, add --yes." in ran.err


def test_cleanup_deletes_unused_queues_unless_told_otherwise(
    ferryman: Callable[..., Ran], sync_client: SyncClient
) -> None:
    sync_client.complete_jobs([sync_client.add_raw_job("mail", {}, JobSpec(queue_name="empty")).id])

    ran = ferryman("cleanup", "--json")

    assert ran.json == {"task_identifiers": [], "queue_names": ["empty"], "failed_jobs": 0}


@pytest.mark.parametrize("name", ["GC_TASK_IDENTIFIERS", "gc_task_identifiers", "gc-task-identifiers"])
def test_cleanup_names_are_taken_in_every_spelling_and_tasks_can_be_kept(
    ferryman: Callable[..., Ran], sync_client: SyncClient, name: str
) -> None:
    sync_client.complete_jobs([sync_client.add_raw_job(task).id for task in ("kept", "gone")])

    ran = ferryman("cleanup", name, "--keep", "kept")

    assert ran.out == "Deleted unused tasks: gone. Restart Node and Rust workers that run them.\n"


def test_cleanup_does_several_things_at_once(ferryman: Callable[..., Ran], sync_client: SyncClient) -> None:
    sync_client.permanently_fail_jobs([sync_client.add_raw_job("mail").id])

    ran = ferryman("cleanup", "delete-permafailed-jobs", "gc-job-queues", "--yes")

    assert ran.out == "Deleted failed jobs: 1\nDeleted unused queues: none\n"


def test_cleanup_keeps_jobs_that_failed_a_short_time_ago_if_told_so(
    ferryman: Callable[..., Ran], sync_client: SyncClient
) -> None:
    sync_client.permanently_fail_jobs([sync_client.add_raw_job("mail").id])

    delete = ("cleanup", "delete-permafailed-jobs", "--yes", "--older-than")
    assert ferryman(*delete, "30d").out == "Deleted failed jobs: 0\n"
    assert ferryman(*delete, "0s").out == "Deleted failed jobs: 1\n"


def test_cleanup_asks_before_it_deletes_failed_jobs_and_only_then(
    ferryman: Callable[..., Ran], sync_client: SyncClient
) -> None:
    assert ferryman("cleanup", "delete-permafailed-jobs").out == "Deleted failed jobs: 0\n"
    sync_client.permanently_fail_jobs([sync_client.add_raw_job("mail").id])

    refused = ferryman("cleanup", "delete-permafailed-jobs", stdin="n\n")

    assert refused.code == 1
    assert "This deletes 1 failed job, with the payloads." in refused.err
    assert sync_client.counts().failed == 1
    assert ferryman("cleanup", "delete-permafailed-jobs", stdin="y\n").out == "Deleted failed jobs: 1\n"


@pytest.mark.parametrize(
    "command",
    [
        ["unlock", "dead"],
        ["workers", "recover", "--worker", "dead"],
        ["schema", "uninstall-extensions"],
        ["doctor", "--tune", "key-index"],
    ],
)
def test_with_json_a_command_that_would_ask_writes_one_document_and_changes_nothing(
    ferryman: Callable[..., Ran], dead_worker: str, command: list[str]
) -> None:
    ran = ferryman(*command, "--json", stdin="y\n")

    assert ran.code == 1
    assert ran.error["type"] == "NotConfirmedError"
    assert ran.error["message"].endswith("To go ahead, add --yes.")
    assert ferryman("jobs", "counts", "--json").json["running"] == 2


def test_an_unknown_cleanup_is_a_usage_error(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("cleanup", "everything")

    assert ran.code == 2
    assert "'everything' is not a clean-up task. The tasks are: GC_TASK_IDENTIFIERS" in ran.err
