"""Jobs that Node adds and we read, and the other way round."""

from __future__ import annotations

import psycopg
import pytest

from ferryman.schema import migrate, upgrade
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.tables import Tables


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_node_runs_what_our_functions_stored(database: str, version: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        tables = Tables(connection)
        tables.add_job(payload={"from": "sql"}, priority=3)
        tables.add_jobs({"payload": {"n": 1}, "job_key": "k", "priority": 1}, {"payload": [1, 2], "priority": 2})
        tables.add_job(payload={"not": "yet"}, run_at="2100-01-01Z")
        tables.add_job("unknown to Node")
        ran = nodes.run(version, "runOnce", database, tasks=["task"])
        left = [job["payload"] for job in tables.jobs()]
    assert [(job["payload"], job["key"], job["attempts"]) for job in ran] == [
        ({"n": 1}, "k", 1),
        ([1, 2], None, 1),
        ({"from": "sql"}, None, 1),
    ]
    assert left == [{"not": "yet"}, {}]


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_we_read_what_node_stored(database: str, version: str) -> None:
    spec = {"queueName": "q", "jobKey": "k", "maxAttempts": 3, "priority": 4, "flags": ["a", "b"]}
    spec["runAt"] = "2100-01-01T00:00:00.000Z"
    nodes.run(version, "add", database, jobs=[{"identifier": "send", "payload": {"ü": [1]}, "spec": spec}])
    with psycopg.connect(database, autocommit=True) as connection:
        tables = Tables(connection)
        (job,) = tables.jobs()
        (shown,) = tables.query("select * from graphile_worker.jobs")
    assert (job["payload"], job["key"], job["max_attempts"], job["priority"]) == ({"ü": [1]}, "k", 3, 4)
    assert (shown["task_identifier"], shown["queue_name"]) == ("send", "q")
    assert (shown["flags"], shown["run_at"].year) == ({"a": True, "b": True}, 2100)


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_nodes_bulk_additions_come_back_with_the_right_labels(database: str, version: str) -> None:
    """Node pairs rows and specs by position, which Graphile's own body does not keep."""
    specs = [
        {"identifier": f"task {n % 3}", "payload": n, **({"jobKey": f"k{9 - n}"} if n % 2 else {})} for n in range(9)
    ]
    added = nodes.run(version, "addMany", database, specs=specs)
    assert [(job["payload"], job["task_identifier"]) for job in added] == [(n, f"task {n % 3}") for n in range(9)]


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_a_waiting_node_worker_is_woken_by_our_functions(database: str, version: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection, nodes.working(version, database) as worker:
        for n, named in enumerate([{}, {"job_key": "k"}, {"job_key": "l", "job_key_mode": "unsafe_dedupe"}]):
            Tables(connection).add_job(payload=n, **named)
            assert worker.next_line()["payload"] == n
        assert worker.stop() == "stopped"


def test_installing_another_schema_does_not_stop_a_node_worker(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection, nodes.working("0.18", database) as worker:
        carry_out(database, migrate, "another")
        Tables(connection).add_job(payload="still here")
        assert worker.next_line()["payload"] == "still here"


def test_a_breaking_upgrade_stops_an_old_node_worker(node_database) -> None:
    dsn = node_database("0.16")
    with nodes.working("0.16", dsn) as worker:
        carry_out(dsn, upgrade)
        assert worker.next_line() == "stopped"
