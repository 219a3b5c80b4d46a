"""What our bodies of add_job and add_jobs promise beyond Graphile's; what both promise is in tests/interop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.background import in_background
from tests.support.listening import heard
from tests.support.waiting import until_somebody_waits

if TYPE_CHECKING:
    from tests.support.tables import Tables


def test_rows_come_back_in_the_order_of_the_specs(tables: Tables) -> None:
    tables.add_job("b", job_key="k3")
    specs = [
        {"identifier": "c", "payload": 0},
        {"identifier": "a", "payload": 1, "job_key": "k9"},
        {"identifier": "b", "payload": 2, "queue_name": "q"},
        {"identifier": "a", "payload": 3, "job_key": "k3"},
        {"identifier": "c", "payload": 4},
        {"identifier": "b", "payload": 5, "job_key": "k5", "queue_name": "p"},
    ]
    rows = tables.add_jobs(*specs)
    assert [row["payload"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert [row["key"] for row in rows] == [None, "k9", None, "k3", None, "k5"]


def test_jobs_without_a_key_are_numbered_in_the_order_of_the_specs(tables: Tables) -> None:
    rows = tables.add_jobs(*({"identifier": f"task {n % 3}", "payload": n} for n in range(30)))
    assert [row["payload"] for row in rows] == list(range(30))
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)


def test_specs_that_share_a_key_are_applied_one_after_the_other(tables: Tables) -> None:
    rows = tables.add_jobs(
        {"payload": [1], "job_key": "k", "run_at": "2050-01-01Z"},
        {"payload": {"other": True}, "job_key": "l"},
        {"payload": [2, 3], "job_key": "k"},
        {"payload": [4], "job_key": "k", "run_at": "2060-01-01Z", "priority": 7},
        preserve_run_at=True,
    )
    assert [row["payload"] for row in rows] == [[1], {"other": True}, [1, 2, 3], [1, 2, 3, 4]]
    (job, other) = tables.jobs()
    assert (job["payload"], job["revision"], job["run_at"].year, job["priority"]) == ([1, 2, 3, 4], 2, 2050, 7)
    assert other["payload"] == {"other": True}


def test_specs_that_share_a_key_replace_a_running_job_once(tables: Tables) -> None:
    running = tables.add_job(job_key="k")
    tables.claim(running["id"])
    rows = tables.add_jobs({"payload": 1, "job_key": "k"}, {"payload": 2, "job_key": "k"})
    assert len(tables.jobs()) == 2
    assert {row["id"] for row in rows} == {tables.jobs()[1]["id"]}
    assert tables.job(running["id"])["key"] is None


def test_a_running_job_that_is_replaced_changed_after_it_was_locked(tables: Tables, database: str) -> None:
    """Even when the transaction that replaces it began before the claim."""
    running = tables.add_job(job_key="k")
    with tables.connection.transaction():
        tables.query("select now()")
        in_background(database, lambda worker: worker.claim(running["id"])).result()
        tables.add_job(job_key="k")
    replaced = tables.job(running["id"])
    assert replaced["updated_at"] > replaced["locked_at"]


@pytest.mark.parametrize(
    ("old", "new", "joined"),
    [
        ("[1]", " \n[2]\t", [1, 2]),
        ("[[1]] ", "[[2], [3]]", [[1], [2], [3]]),
        ("[]", "[1]", [1]),
        ("[1]", "[ ]", [1]),
        ("[]", "[]", []),
        (r'["\u0000"]', '["]"]', ["\0", "]"]),
        ('[{"a": 1, "a": 2}]', '["[,]"]', [{"a": 2}, "[,]"]),
    ],
)
def test_two_arrays_become_one(tables: Tables, old: str, new: str, joined: list[object]) -> None:
    for payload in (old, new):
        tables.query("select graphile_worker.add_job('task', %s::json, job_key => 'k')", payload)
    (text,) = tables.query("select payload::text from graphile_worker._private_jobs")
    assert json.loads(text["payload"]) == joined


@pytest.mark.parametrize("specs", ["null", "'{}'"])
def test_no_specs_wake_nobody(tables: Tables, database: str, specs: str) -> None:
    with heard(database, "jobs:insert") as wake_ups:
        assert tables.query(f"select * from graphile_worker.add_jobs({specs})") == []
    assert wake_ups == []


def test_the_wake_ups_of_a_mixed_call_add_up(tables: Tables, database: str) -> None:
    with heard(database, "jobs:insert") as wake_ups:
        tables.add_jobs({}, {"job_key": "k"}, {})
    assert sum(json.loads(payload)["count"] for payload in wake_ups) == 3


def test_known_tasks_and_queues_use_up_no_numbers(tables: Tables) -> None:
    for _ in range(5):
        tables.add_job("known", queue_name="queue")
        tables.add_job("known", queue_name="queue", job_key="k")
        tables.add_job("known", queue_name="queue", job_key="k", job_key_mode="unsafe_dedupe")
        tables.add_jobs({"identifier": "known", "queue_name": "queue"}, {"identifier": "known"})
    (numbers,) = tables.query(
        "select (select last_value from graphile_worker.tasks_id_seq) as tasks,"
        " (select last_value from graphile_worker.job_queues_id_seq) as queues"
    )
    assert numbers == {"tasks": 1, "queues": 1}


def test_a_job_whose_task_is_being_introduced_elsewhere_is_stored(tables: Tables, database: str) -> None:
    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as observer:
        other.execute("select graphile_worker.add_job('new task', queue_name => 'new queue')")
        adding = in_background(database, lambda mine: mine.add_job("new task", queue_name="new queue"))
        until_somebody_waits(observer)
        other.commit()
        assert adding.result(timeout=60)["id"] is not None
    assert tables.query("select count(*) from graphile_worker.jobs") == [{"count": 2}]


def test_keys_are_found_by_index_although_the_plan_was_made_on_an_empty_table(tables: Tables) -> None:
    """A vacuumed, empty table looks as if reading it whole were the quickest way, and the plan stays in the session."""
    tables.query("vacuum analyze graphile_worker._private_jobs")
    for n in range(12):
        tables.add_job(job_key=f"early {n}")
        tables.query("delete from graphile_worker._private_jobs")
    tables.query(
        "insert into graphile_worker._private_jobs (task_id, key) select 1, 'k' || n from generate_series(1, 5000) as n"
    )
    with tables.connection.transaction():
        before = _whole_table_reads(tables)
        for n in range(20):
            tables.add_job(job_key=f"k{n}")
            tables.add_jobs({"job_key": f"k{n + 100}"}, {"job_key": f"k{n + 200}"})
        assert _whole_table_reads(tables) == before


def test_a_serialisable_transaction_is_told_to_try_again(tables: Tables, database: str) -> None:
    with psycopg.connect(database) as snapshot:
        snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        snapshot.execute("select 1")
        tables.add_job(job_key="k")
        with pytest.raises(psycopg.errors.SerializationFailure):
            snapshot.execute("select graphile_worker.add_job('task', job_key => 'k')")


def _whole_table_reads(tables: Tables) -> int:
    """What this session has counted and not handed in yet; it hands in nothing while a transaction is open."""
    (row,) = tables.query("select seq_scan from pg_stat_xact_user_tables where relname = '_private_jobs'")
    return row["seq_scan"]
