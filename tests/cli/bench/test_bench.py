"""`ferryman bench` on a real server: what it prints, and that it leaves nothing behind."""

from __future__ import annotations

import json
import math
import signal
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman import Client
from ferryman.cli.bench import bench_schema, measuring
from ferryman.errors import DatabaseError
from tests.support.beats import over_tcp
from tests.support.commands import RunningCommand
from tests.support.network import PgBouncer
from tests.support.server import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from ferryman.embedded import EmbeddedPostgres
    from tests.support.commands import Ran

SMALL = ("--jobs", "200", "--rounds", "1", "--concurrency", "4")


@pytest.fixture(autouse=True)
def _few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CALLS_PER_ROUND", 10)
    monkeypatch.setattr(measuring, "CALL_SECONDS", math.inf)


@pytest.fixture
def stranger(connection: psycopg.Connection, server: EmbeddedPostgres, database: str) -> Iterator[str]:
    """The address for a role that owns nothing and may not create a schema."""
    role = f"stranger_{new_name()}"  # roles belong to the server, which other tests use too
    connection.execute(f"create role {role} login password 'known'")
    yield make_conninfo(over_tcp(server, database), user=role, password="known")
    connection.execute(f"drop role {role}")


def schemas(connection: psycopg.Connection) -> list[str]:
    """Return all schemas but PostgreSQL's own."""
    found = connection.execute(
        "select nspname from pg_namespace where nspname !~ '^(pg_|information_schema)' order by nspname"
    )
    return [name for (name,) in found]


def test_a_run_tells_what_it_does_prints_a_table_and_leaves_nothing_behind(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    before = schemas(connection)
    ran = ferryman("bench", *SMALL, "--queue-size", "50")

    assert ran.code == 0
    assert "in the new schema ferryman_bench_" in ran.err.splitlines()[0]
    assert "twice 200 jobs are added and run, 4 at a time" in ran.err.splitlines()[0]
    for line in ("round trip (select 1) ", "small insert, committed ", "adding jobs one by one ", "draining, direct "):
        assert f"\n{line}" in f"\n{ran.out}"
    assert "\ndraining, local queue of 50 " in ran.out
    assert "\nfrom adding to start, idle worker " in ran.out
    assert "figures of this run only: 1 round of 200 jobs that do nothing, concurrency 4" in ran.out
    assert before == schemas(connection)


def test_the_document_is_alone_on_both_streams(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> None:
    before = schemas(connection)
    options = ("--queue-size", "0", "--batch-delay", "2", "--job-ms", "1", "--max-connections", "3")
    ran = ferryman("bench", *SMALL, *options, "--json")

    assert (ran.code, ran.err) == (0, "")
    figures = ran.json["figures"]
    assert figures["setup"] == {
        "jobs": 200,
        "concurrency": 4,
        "queue_size": 0,
        "batch_delay_ms": 2.0,
        "job_ms": 1.0,
        "rounds": 1,
        "max_connections": 3,
    }
    assert figures["local_queue"] is None
    assert figures["direct"]["rate"]["median"] > 0
    assert figures["latency"]["samples"] == 10
    assert figures["server"]["has_pooler"] is False
    assert all({"topic", "seen", "reason", "settings"} == each.keys() for each in ran.json["advice"])
    assert before == schemas(connection)


def test_jobs_of_others_are_not_touched_and_the_schema_of_the_environment_is_not_used(
    ferryman: Callable[..., Ran], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRYMAN_SCHEMA", "graphile_worker")
    ferryman("jobs", "add", "bench_work", '{"number": 1}')
    look = "select xmin::text, * from graphile_worker._private_jobs"
    before = connection.execute(look).fetchall()

    assert ferryman("bench", *SMALL, "--json").code == 0

    assert len(before) == 1
    assert before == connection.execute(look).fetchall()


def test_a_schema_that_is_there_already_is_refused_and_stays(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    before = schemas(connection)
    ran = ferryman("bench", *SMALL, "--schema", "graphile_worker", "--json")

    assert ran.code == 1
    assert 'schema "graphile_worker" already exists' in ran.error["message"]
    assert before == schemas(connection)


def test_a_role_that_may_not_create_schemas_is_told_what_it_needs(run: Callable[..., Ran], stranger: str) -> None:
    ran = run("bench", *SMALL, "--database-url", stranger)

    assert ran.code == 1
    assert f"the role '{conninfo_to_dict(stranger)['user']}' may not create schemas in the database" in ran.err
    assert "nothing was changed" in ran.err
    assert "grant create on database" in ran.err
    assert "Measuring" not in ran.err


def test_a_failure_in_the_middle_is_told_and_leaves_nothing_behind(
    ferryman: Callable[..., Ran], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = schemas(connection), []

    async def fail(_: Client) -> None:
        seen.extend(schemas(connection))
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(Client, "counts", fail)
    ran = ferryman("bench", *SMALL, "--json")

    assert ran.code == 1
    assert ran.error == {"type": "DatabaseError", "message": "the disk is full"}
    assert len(before) + 1 == len(seen)
    assert before == schemas(connection)


def test_jobs_that_do_not_come_to_an_end_end_the_run(
    ferryman: Callable[..., Ran], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferryman.cli.bench.measuring.STALL_SECONDS", -59.9)
    before = schemas(connection)
    ran = ferryman("bench", *SMALL, "--job-ms", "60000", "--json")

    assert ran.error["type"] == "StalledError"
    assert "0 of 200 are done" in ran.error["message"]
    assert before == schemas(connection)


def test_a_schema_that_cannot_be_dropped_is_named_with_the_statement_that_does(
    ferryman: Callable[..., Ran], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench_schema._run

    async def fail_to_drop(where: bench_schema.BenchSchema, name: str) -> None:
        if name == "drop_schema":
            raise DatabaseError("the server is gone")
        await real(where, name)

    monkeypatch.setattr(bench_schema, "_run", fail_to_drop)
    ran = ferryman("bench", *SMALL, "--schema", "left_behind", "--json")

    assert ran.error["type"] == "SchemaLeftError"
    assert "could not be dropped (the server is gone)" in ran.error["message"]
    assert 'drop schema "left_behind" cascade;' in ran.error["message"]
    assert "left_behind" in schemas(connection)


A_SECOND_EACH = ("--jobs", 100, "--concurrency", 100, "--job-ms", 1000)
"""The drain takes long enough to be interrupted within it, and little work."""
UP_TO = {
    "adding": ("--jobs", 1000),
    "draining them": A_SECOND_EACH,
    "single jobs": ("--jobs", 100),
    "local queue": A_SECOND_EACH,
}


@pytest.mark.parametrize(
    ("number", "part"),
    [
        (signal.SIGINT, "adding"),
        (signal.SIGINT, "draining them"),
        (signal.SIGINT, "single jobs"),
        (signal.SIGTERM, "draining them"),
        (signal.SIGHUP, "local queue"),
    ],
)
def test_a_signal_ends_the_run_and_leaves_nothing_behind(
    tmp_path: Path, database: str, connection: psycopg.Connection, number: signal.Signals, part: str
) -> None:
    before = schemas(connection)
    with RunningCommand(("bench", "--rounds", 90, *UP_TO[part]), tmp_path, {"DATABASE_URL": database}) as started:
        started.wait_for(f"^Round 1 .*{part}")
        assert len(before) + 1 == len(schemas(connection))

        assert started.stop(number) == 130

    assert started.lines[-1] == "Error: interrupted."
    assert before == schemas(connection)


@pytest.fixture
def pooler(server: EmbeddedPostgres, database: str, server_folder: Path) -> Iterator[PgBouncer]:
    with PgBouncer(over_tcp(server, database), server_folder) as started:
        yield started


def test_a_pooler_in_front_is_noticed_and_told(
    run: Callable[..., Ran], pooler: PgBouncer, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker that cannot listen starts a job at its next poll, so a few are enough.
    monkeypatch.setattr(measuring, "FEWEST_CALLS", 2)
    monkeypatch.setattr(measuring, "CALL_SECONDS", 0.0)
    before = schemas(connection)
    ran = run("bench", *SMALL, "--queue-size", "0", "--database-url", pooler.dsn, "--json")

    assert ran.code == 0
    assert ran.json["figures"]["server"]["has_pooler"] is True
    assert ran.json["advice"][0]["topic"] == "pooler"
    assert before == schemas(connection)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--jobs", "5"], "'--jobs': 5 is not in the range"),
        (["--rounds", "0"], "'--rounds': 0 is not in the range"),
        (["--concurrency", "none"], "'none' is not a valid whole number."),
        (["--queue-size", "-1"], "-1 is not in the range"),
        (["--job-ms", "nan"], "'--job-ms': 'nan' is not a number of milliseconds"),
        (["--batch-delay", "inf"], "'--batch-delay': inf is not in the range"),
        (["--max-connections", "0"], "'--max-connections': 0 is not in the range"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_happens(
    run: Callable[..., Ran], options: list[str], problem: str
) -> None:
    ran = run("bench", *options)

    assert ran.code == 2
    assert problem in ran.err


def test_a_name_that_no_schema_can_have_is_refused(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("bench", "--schema", "pg_mine", "--json")

    assert ran.code == 1
    assert "starts with 'pg_'" in ran.error["message"]


def test_without_a_database_the_ways_to_name_one_are_told(run: Callable[..., Ran]) -> None:
    ran = run("bench", "--json")

    assert ran.code == 1
    assert "no database is configured" in json.loads(ran.err)["error"]["message"]
