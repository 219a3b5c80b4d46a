"""Commands of a role that may read the tables, but from which row security hides every row."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from ferryman import JobSpec
from tests.support.commands import run_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from ferryman import SyncClient
    from tests.support.commands import Ran

READER = f"reader_{os.getpid()}"
COMMANDS = [
    "jobs list",
    "jobs counts",
    "jobs show 1",
    "jobs complete 1",
    "jobs fail 1",
    "jobs retry 1",
    "jobs reschedule 1 --priority 1",
    "jobs remove key",
    "workers list",
    "workers recover",
    "unlock worker-1 --yes",
    "cleanup",
]


@pytest.fixture
def as_reader(
    database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Ran]]:
    """Run `ferryman` as a role with select and update on all tables, and no more."""
    connection.execute(f"create role {READER} login password 'known'")
    connection.execute(f"grant usage on schema graphile_worker to {READER}")
    connection.execute(f"grant select, update, delete on all tables in schema graphile_worker to {READER}")
    monkeypatch.setenv("DATABASE_URL", make_conninfo(database, user=READER, password="known"))
    yield run_here
    connection.execute(f"drop owned by {READER} cascade")
    connection.execute(f"drop role {READER}")


def test_a_queue_whose_rows_are_hidden_does_not_look_empty(
    as_reader: Callable[..., Ran], connection: psycopg.Connection, sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("task", {}, JobSpec(job_key="key"))

    for command in COMMANDS:
        ran = as_reader(*command.split(), "--json")
        assert (ran.code, ran.error["type"]) == (1, "RowsHiddenError"), command
        assert "row security hides every row of _private_job_queues, _private_jobs" in ran.error["message"]
    seen = as_reader("doctor")
    assert seen.code == 1
    assert "row security hides rows of" in seen.out
    assert sync_client.counts().ready == 1

    connection.execute(f"create policy seen on graphile_worker._private_jobs to {READER} using (true)")
    connection.execute(f"create policy seen on graphile_worker._private_tasks to {READER} using (true)")
    connection.execute(f"create policy seen on graphile_worker._private_job_queues to {READER} using (true)")
    assert as_reader("jobs", "counts", "--json").json["total"] == 1


def test_crontabs_whose_rows_are_hidden_do_not_look_as_if_there_were_none(
    as_reader: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    table = "graphile_worker._private_known_crontabs"
    connection.execute(f"insert into {table} (identifier, known_since) values ('c', now())")

    ran = as_reader("cron", "list", "--json")
    assert (ran.code, ran.error["type"]) == (1, "RowsHiddenError")
    assert "every row of _private_known_crontabs" in ran.error["message"]
    assert "the list of crontabs would look empty" in ran.error["message"]

    connection.execute(f"create policy seen on {table} to {READER} using (true)")
    [crontab] = as_reader("cron", "list", "--json").json["crontabs_of_workers"]
    assert crontab["identifier"] == "c"
