"""Our client and a real Node worker on one schema: what one adds, the other reads and runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ferryman import JobSpec, JobState, RawJobSpec, SyncClient
from tests.support import nodes

pytestmark = pytest.mark.parametrize("version", ["0.17", "0.18"])


def test_node_runs_jobs_that_our_client_added_in_any_way(sync_client: SyncClient, database: str, version: str) -> None:
    sync_client.add_raw_job("task", {"n": 1}, JobSpec(priority=-3))
    sync_client.add_raw_job("task", {"n": 2}, JobSpec(job_key="k", priority=-2))
    sync_client.add_raw_jobs([RawJobSpec("task", {"n": n}, JobSpec(queue_name=f"q{n}")) for n in (3, 4)])
    sync_client.add_batch_job("task", [{"n": 5}], JobSpec(priority=9))
    sync_client.add_raw_job("task", {"n": 6}, JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1)))

    ran = nodes.run(version, "runOnce", database, tasks=["task"])

    payloads = [line["payload"] for line in ran]
    assert payloads[:2] == [{"n": 1}, {"n": 2}]
    assert sorted(payload["n"] for payload in payloads[2:-1]) == [3, 4]
    assert payloads[-1] == [{"n": 5}]
    [left] = sync_client.list_jobs().jobs
    assert (left.payload, left.state) == ({"n": 6}, JobState.SCHEDULED)


def test_a_waiting_node_worker_is_woken_by_our_client(sync_client: SyncClient, database: str, version: str) -> None:
    with nodes.working(version, database) as worker:
        sync_client.add_raw_job("task", {"n": 1})
        assert worker.next_line()["payload"] == {"n": 1}
        sync_client.add_raw_jobs([RawJobSpec("task", {"n": 2})])
        assert worker.next_line()["payload"] == {"n": 2}
        assert worker.stop() == "stopped"


def test_our_client_reads_and_changes_what_node_added(sync_client: SyncClient, database: str, version: str) -> None:
    spec = {"queueName": "q", "maxAttempts": 3, "jobKey": "k", "priority": 5, "flags": ["f"]}
    [added] = nodes.run(version, "add", database, jobs=[{"identifier": "send", "payload": {"to": "ü🚢"}, "spec": spec}])

    job = sync_client.get_job(int(added["id"]))

    assert job is not None
    assert (job.task_identifier, job.payload, job.queue_name, job.key) == ("send", {"to": "ü🚢"}, "q", "k")
    assert (job.max_attempts, job.priority, job.flags, job.state) == (3, 5, ("f",), JobState.READY)
    replaced = sync_client.add_raw_job("send", {"to": "other"}, JobSpec(job_key="k"))
    assert (replaced.id, replaced.revision) == (job.id, 1)
    assert sync_client.remove_job("k") is not None
    assert sync_client.counts().total == 0


def test_node_says_what_it_failed_with_and_our_client_reads_it(
    sync_client: SyncClient, database: str, version: str
) -> None:
    job = sync_client.add_raw_job("task", {"fail": "no luck"}, JobSpec(max_attempts=2))

    nodes.run(version, "runOnce", database, tasks=["task"])

    failed = sync_client.get_job(job.id)
    assert failed is not None
    assert (failed.attempts, failed.last_error, failed.state) == (1, "no luck", JobState.RETRYING)
