"""What the SQL functions do, whoever wrote their bodies: each test runs on ours and on those of real Node installs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from tests.support.listening import heard
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.tables import Row

LATER = datetime(2050, 1, 1, tzinfo=UTC)
MUCH_LATER = datetime(2060, 1, 1, tzinfo=UTC)
FULL = {
    "payload": {"n": 2},
    "queue_name": "new queue",
    "run_at": MUCH_LATER,
    "max_attempts": 7,
    "priority": 5,
    "flags": ["b"],
}


@pytest.fixture(params=["ours", "0.16", "0.18"])
def contract(request: pytest.FixtureRequest, shared_database: Callable[[str], str]) -> str:
    """The DSN of a database whose tables are empty."""
    dsn = shared_database(request.param)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "truncate graphile_worker._private_jobs, graphile_worker._private_job_queues,"
            " graphile_worker._private_tasks"
        )
    return dsn


@pytest.fixture
def tables(contract: str) -> Iterator[Tables]:
    with psycopg.connect(contract, autocommit=True) as connection:
        yield Tables(connection)


def without_our_mark(row: Row) -> Row:
    """The row as Graphile leaves it. A trigger of ours adds a flag to a job that must end with its run."""
    flags = {name: value for name, value in (row["flags"] or {}).items() if name != "ferryman:superseded"}
    return {**row, "flags": flags or None}


class TestAddingWithoutAKey:
    def test_everything_left_out_has_a_default(self, tables: Tables) -> None:
        job = tables.add_job()
        assert (job["payload"], job["max_attempts"], job["priority"], job["attempts"]) == ({}, 25, 0, 0)
        assert (job["flags"], job["key"], job["job_queue_id"], job["revision"]) == (None, None, None, 0)
        assert job["run_at"] == job["created_at"] == job["updated_at"]
        assert job["is_available"]

    def test_everything_given_is_stored(self, tables: Tables) -> None:
        job = tables.add_job("t", **FULL, job_key_mode="preserve_run_at")
        assert (job["payload"], job["run_at"], job["max_attempts"], job["priority"]) == ({"n": 2}, MUCH_LATER, 7, 5)
        assert job["flags"] == {"b": True}
        (shown,) = tables.query("select queue_name, task_identifier from graphile_worker.jobs")
        assert shown == {"queue_name": "new queue", "task_identifier": "t"}

    def test_no_flags_are_stored_as_none_and_doubles_once(self, tables: Tables) -> None:
        assert tables.add_job(flags=[])["flags"] is None
        assert tables.add_job(flags=["a", "a"])["flags"] == {"a": True}

    def test_a_json_null_stays_a_null(self, tables: Tables) -> None:
        tables.add_job(payload=None)
        assert tables.query("select payload::text from graphile_worker._private_jobs") == [{"payload": "null"}]

    def test_any_mode_is_fine_without_a_key(self, tables: Tables) -> None:
        assert tables.add_job(job_key_mode="bogus")["id"] is not None

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"identifier": None}, errors.NotNullViolation),
            ({"identifier": "x" * 129}, errors.CheckViolation),
            ({"queue_name": "x" * 129}, errors.CheckViolation),
            ({"job_key": ""}, errors.CheckViolation),
            ({"job_key": "x" * 513}, errors.CheckViolation),
            ({"max_attempts": 0}, errors.CheckViolation),
            ({"max_attempts": 32768}, errors.NumericValueOutOfRange),
            ({"priority": -32769}, errors.NumericValueOutOfRange),
            ({"flags": [None]}, errors.InvalidParameterValue),
        ],
    )
    def test_what_cannot_be_stored_is_refused(self, tables: Tables, wrong: dict, error: type[Exception]) -> None:
        with pytest.raises(error):
            tables.add_job(**wrong)
        assert tables.jobs() == []

    def test_many_are_added_at_once(self, tables: Tables) -> None:
        rows = tables.add_jobs(
            {"identifier": "a", "payload": 1},
            {"identifier": "b", "payload": 2, "queue_name": "q", "flags": ["f"], "run_at": LATER},
            {"identifier": "a", "payload": 3, "max_attempts": 3, "priority": 9},
        )
        by_payload = {row["payload"]: row for row in rows}
        assert by_payload[1]["task_id"] == by_payload[3]["task_id"] != by_payload[2]["task_id"]
        assert (by_payload[2]["flags"], by_payload[2]["run_at"]) == ({"f": True}, LATER)
        assert (by_payload[3]["max_attempts"], by_payload[3]["priority"]) == (3, 9)
        assert by_payload[2]["job_queue_id"] == tables.queue("q")["id"]


class TestAddingWithAKey:
    @pytest.mark.parametrize("mode", [None, "replace", "preserve_run_at", "unsafe_dedupe"])
    def test_a_new_key_is_a_new_job(self, tables: Tables, mode: str | None) -> None:
        job = tables.add_job(job_key="k", job_key_mode=mode, **FULL)
        assert (job["key"], job["revision"], job["payload"], job["run_at"]) == ("k", 0, {"n": 2}, MUCH_LATER)

    @pytest.mark.parametrize("mode", [None, "replace", "preserve_run_at"])
    def test_a_waiting_job_is_overwritten(self, tables: Tables, mode: str | None) -> None:
        old = tables.add_job("old", payload={"n": 1}, queue_name="q", run_at=LATER, job_key="k", flags=["a"])
        new = tables.add_job("new", job_key="k", job_key_mode=mode, **FULL)
        assert new["run_at"] == (LATER if mode == "preserve_run_at" else MUCH_LATER)
        assert new["id"] == old["id"]
        assert (new["payload"], new["max_attempts"], new["priority"]) == ({"n": 2}, 7, 5)
        assert (new["flags"], new["revision"], new["created_at"]) == ({"b": True}, 1, old["created_at"])
        assert new["task_id"] != old["task_id"]
        assert new["job_queue_id"] == tables.queue("new queue")["id"]

    def test_what_is_left_out_goes_back_to_its_default(self, tables: Tables) -> None:
        tables.add_job(job_key="k", **FULL)
        job = tables.add_job(job_key="k")
        assert (job["payload"], job["max_attempts"], job["priority"], job["flags"]) == ({}, 25, 0, None)
        assert job["job_queue_id"] is None
        assert job["run_at"] == job["updated_at"]

    @pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
    def test_a_job_that_failed_before_starts_again(self, tables: Tables, mode: str) -> None:
        old = tables.add_job(job_key="k", run_at=LATER)
        tables.set(old["id"], attempts=3, last_error="oh")
        new = tables.add_job(job_key="k", job_key_mode=mode, run_at=MUCH_LATER)
        assert (new["id"], new["attempts"], new["last_error"]) == (old["id"], 0, None)
        assert (new["run_at"], new["revision"]) == (MUCH_LATER, 1)

    @pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
    @pytest.mark.parametrize("age", ["0 seconds", "5 hours"])
    def test_a_running_job_is_retired_and_succeeded(self, tables: Tables, mode: str, age: str) -> None:
        old = tables.claim(tables.add_job(job_key="k", payload=[1], queue_name="q")["id"], age=age)
        new = tables.add_job(job_key="k", job_key_mode=mode, payload=[2], run_at=LATER)
        assert new["id"] != old["id"]
        assert (new["payload"], new["revision"], new["attempts"], new["run_at"]) == ([2], 0, 0, LATER)
        retired = without_our_mark(tables.job(old["id"]))
        assert (retired["key"], retired["attempts"]) == (None, retired["max_attempts"])
        unchanged = {*old} - {"key", "attempts", "updated_at"}
        assert all(retired[name] == old[name] for name in unchanged)

    @pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
    def test_a_job_that_failed_for_good_is_succeeded(self, tables: Tables, mode: str) -> None:
        old = tables.add_job(job_key="k")
        tables.permanently_fail_jobs(old["id"])
        new = tables.add_job(job_key="k", job_key_mode=mode)
        assert new["id"] != old["id"]
        assert (tables.job(old["id"])["key"], new["key"]) == (None, "k")

    @pytest.mark.parametrize("state", ["waiting", "failed before", "running", "failed for good"])
    def test_unsafe_dedupe_leaves_any_job_as_it_is(self, tables: Tables, state: str) -> None:
        old = tables.add_job(job_key="k", payload=[1], run_at=LATER)
        if state == "failed before":
            old = tables.set(old["id"], attempts=1, last_error="oh")
        elif state == "running":
            old = tables.claim(old["id"])
        elif state == "failed for good":
            (old,) = tables.permanently_fail_jobs(old["id"])
        new = tables.add_job("other", job_key="k", job_key_mode="unsafe_dedupe", **FULL)
        assert new == {**old, "revision": 1, "updated_at": new["updated_at"]}
        assert new["updated_at"] > old["updated_at"]
        assert len(tables.jobs()) == 1

    @pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
    def test_two_arrays_become_one(self, tables: Tables, mode: str) -> None:
        tables.add_job(job_key="k", payload=[{"a": 1}, [2]])
        assert tables.add_job(job_key="k", job_key_mode=mode, payload=["3"])["payload"] == [{"a": 1}, [2], "3"]

    @pytest.mark.parametrize(("old", "new"), [([1], {"a": 1}), ({"a": 1}, [1]), ("x", "y")])
    def test_anything_else_is_replaced(self, tables: Tables, old: object, new: object) -> None:
        tables.add_job(job_key="k", payload=old)
        assert tables.add_job(job_key="k", payload=new)["payload"] == new

    def test_keys_do_not_care_about_tasks(self, tables: Tables) -> None:
        assert tables.add_job("a", job_key="k")["id"] == tables.add_job("b", job_key="k")["id"]

    def test_an_unknown_mode_is_refused(self, tables: Tables) -> None:
        with pytest.raises(psycopg.Error) as refused:
            tables.add_job(job_key="k", job_key_mode="bogus")
        assert refused.value.sqlstate == "GWBKM"
        assert refused.value.diag.message_primary == (
            "Invalid job_key_mode value, expected 'replace', 'preserve_run_at' or 'unsafe_dedupe'."
        )

    @pytest.mark.parametrize(("preserve", "run_at"), [(True, LATER), (False, MUCH_LATER), (None, MUCH_LATER)])
    def test_many_keys_follow_the_same_rules(self, tables: Tables, preserve: bool | None, run_at: datetime) -> None:
        waiting = tables.add_job(job_key="waiting", payload=[1], run_at=LATER)
        running = tables.claim(tables.add_job(job_key="running")["id"])
        rows = tables.add_jobs(
            {"job_key": "new", "run_at": MUCH_LATER},
            {"job_key": "waiting", "payload": [2], "run_at": MUCH_LATER},
            {"job_key": "running", "run_at": MUCH_LATER},
            {"run_at": MUCH_LATER},
            preserve_run_at=preserve,
        )
        by_key = {row["key"]: row for row in rows}
        assert by_key.keys() == {"new", "waiting", "running", None}
        assert (by_key["waiting"]["id"], by_key["waiting"]["payload"]) == (waiting["id"], [1, 2])
        assert (by_key["waiting"]["run_at"], by_key["running"]["run_at"]) == (run_at, MUCH_LATER)
        assert tables.job(running["id"])["key"] is None
        assert len(tables.jobs()) == 5


class TestWakingWorkers:
    @pytest.mark.parametrize("named", [{}, {"job_key": "k"}, {"job_key": "k", "job_key_mode": "unsafe_dedupe"}])
    def test_a_job_wakes_one(self, tables: Tables, contract: str, named: dict) -> None:
        with heard(contract, "jobs:insert") as wake_ups:
            tables.add_job(**named)
        (message,) = [json.loads(payload) for payload in wake_ups]
        assert message.keys() == {"r", "count"}
        assert (message["count"], 0 <= message["r"] < 1) == (1, True)

    def test_a_known_key_wakes_nobody_with_unsafe_dedupe(self, tables: Tables, contract: str) -> None:
        tables.add_job(job_key="k")
        with heard(contract, "jobs:insert") as wake_ups:
            tables.add_job(job_key="k", job_key_mode="unsafe_dedupe")
        assert wake_ups == []

    @pytest.mark.parametrize("keys", [[None, None, None], ["a", "b", "c"]])
    def test_many_jobs_wake_as_many(self, tables: Tables, contract: str, keys: list[str | None]) -> None:
        with heard(contract, "jobs:insert") as wake_ups:
            tables.add_jobs(*({"job_key": key} for key in keys))
        assert [json.loads(payload)["count"] for payload in wake_ups] == [3]

    def test_managing_wakes_nobody(self, tables: Tables, contract: str) -> None:
        job = tables.claim(tables.add_job()["id"])
        with heard(contract, "jobs:insert") as wake_ups:
            tables.force_unlock_workers("worker-1")
            tables.reschedule_jobs(job["id"], priority=1)
            tables.permanently_fail_jobs(job["id"])
            tables.complete_jobs(job["id"])
        assert wake_ups == []


class TestRemoving:
    @pytest.mark.parametrize("age", [None, "5 hours"])
    def test_a_job_that_nobody_runs_is_deleted(self, tables: Tables, contract: str, age: str | None) -> None:
        job = tables.add_job(job_key="k")
        if age:
            job = tables.claim(job["id"], age=age)
        with heard(contract, "jobs:insert") as messages:
            assert tables.remove_job("k") == job
        assert [json.loads(payload)["count"] for payload in messages] == [-1]
        assert tables.jobs() == []

    def test_a_running_job_is_retired(self, tables: Tables, contract: str) -> None:
        job = tables.claim(tables.add_job(job_key="k")["id"])
        with heard(contract, "jobs:insert") as messages:
            removed = tables.remove_job("k")
        assert messages == []
        assert removed == without_our_mark(tables.job(job["id"]))
        assert removed == {**job, "key": None, "attempts": 25, "updated_at": removed["updated_at"]}

    def test_an_unknown_key_gives_an_empty_row(self, tables: Tables) -> None:
        assert set(tables.remove_job("k").values()) == {None}

    def test_no_key_removes_nothing(self, tables: Tables) -> None:
        tables.add_job()
        assert tables.query("select graphile_worker.remove_job(null) is null as nothing") == [{"nothing": True}]
        assert len(tables.jobs()) == 1


class TestManaging:
    """Jobs 0 to 3 are: waiting, failed before, running, and running with a forgotten lock."""

    @pytest.fixture
    def ids(self, tables: Tables) -> list[int]:
        ids = [tables.add_job(queue_name=f"q{n}")["id"] for n in range(4)]
        tables.set(ids[1], attempts=2, last_error="oh")
        tables.claim(ids[2])
        tables.claim(ids[3], age="5 hours")
        return ids

    def test_completing_deletes_what_nobody_runs(self, tables: Tables, ids: list[int]) -> None:
        done = tables.complete_jobs(*ids, 999)
        assert sorted(job["id"] for job in done) == [ids[0], ids[1], ids[3]]
        assert [job["id"] for job in tables.jobs()] == [ids[2]]
        assert tables.queue("q2")["locked_by"] == "worker-1"

    def test_failing_for_good_uses_up_the_attempts(self, tables: Tables, ids: list[int]) -> None:
        before = tables.job(ids[3])
        failed = {job["id"]: job for job in tables.permanently_fail_jobs(*ids, reason="no more")}
        assert failed.keys() == {ids[0], ids[1], ids[3]}
        changed = {"attempts": 25, "last_error": "no more", "updated_at": failed[ids[3]]["updated_at"]}
        assert failed[ids[3]] == {**before, **changed, "is_available": False}
        assert tables.job(ids[2])["attempts"] == 1

    def test_failing_for_good_has_a_default_reason(self, tables: Tables, ids: list[int]) -> None:
        (job,) = tables.permanently_fail_jobs(ids[0])
        assert job["last_error"] == "Manually marked as failed"

    def test_rescheduling_changes_what_is_given(self, tables: Tables, ids: list[int]) -> None:
        before = tables.job(ids[1])
        rescheduled = {job["id"]: job for job in tables.reschedule_jobs(*ids, run_at=LATER, attempts=0)}
        assert rescheduled.keys() == {ids[0], ids[1], ids[3]}
        changed = {"run_at": LATER, "attempts": 0, "updated_at": rescheduled[ids[1]]["updated_at"]}
        assert rescheduled[ids[1]] == {**before, **changed}
        assert rescheduled[ids[3]]["locked_by"] == "worker-1"

    def test_rescheduling_with_nothing_given_changes_nothing(self, tables: Tables, ids: list[int]) -> None:
        before = tables.job(ids[0])
        (after,) = tables.reschedule_jobs(ids[0])
        assert after == {**before, "updated_at": after["updated_at"]}

    def test_rescheduling_takes_numbers_that_fit(self, tables: Tables, ids: list[int]) -> None:
        (job,) = tables.reschedule_jobs(ids[0], priority=-3, max_attempts=1)
        assert (job["priority"], job["max_attempts"]) == (-3, 1)
        with pytest.raises(errors.NumericValueOutOfRange):
            tables.reschedule_jobs(ids[0], priority=40000)

    def test_unlocking_is_by_worker_and_uses_the_attempt(self, tables: Tables, ids: list[int]) -> None:
        other = tables.claim(ids[0], worker="worker-2")
        before = tables.job(ids[2])
        tables.force_unlock_workers("worker-1", "unknown")
        assert tables.job(ids[2]) == {**before, "locked_at": None, "locked_by": None, "is_available": True}
        assert tables.queue("q2")["is_available"]
        assert tables.job(ids[0]) == other
        assert tables.queue("q0")["locked_by"] == "worker-2"
