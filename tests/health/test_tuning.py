"""Options of Graphile's tables that are chosen and taken back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import Client, JobSpec, Severity, SyncClient, Tuning
from ferryman.errors import DatabaseError, IncompatibleSchemaError, InvalidJobError, SchemaMissingError
from ferryman.health.wording import amount
from tests.health.looking import one
from tests.support import nodes
from tests.support.catalogue import catalogue
from tests.support.sick_server import fresh_database

if TYPE_CHECKING:
    from typing import LiteralString

    from ferryman.embedded import EmbeddedPostgres

TUNE = 'alter index "graphile_worker".jobs_key_key1 set (deduplicate_items = off);'
UNTUNE = 'alter index "graphile_worker".jobs_key_key1 reset (deduplicate_items);'
FILL = """
    insert into graphile_worker._private_jobs (task_id, payload)
    select id, '{}' from graphile_worker._private_tasks cross join generate_series(1, 20000) where identifier = 'task'
"""


def _options(connection: psycopg.Connection) -> Any:
    query = "select reloptions from pg_class where oid = 'graphile_worker.jobs_key_key1'::regclass"
    (options,) = connection.execute(query).fetchone() or ()
    return options


def _size(connection: psycopg.Connection) -> int:
    (size,) = connection.execute("select pg_relation_size('graphile_worker.jobs_key_key1')").fetchone() or (0,)
    return int(size)


def test_tuning_changes_one_option_of_the_index_and_untuning_leaves_nothing_behind(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    before = catalogue(database, with_bodies=True)

    tuned = sync_client.tune(Tuning.KEY_INDEX)

    assert (tuned.was_on, tuned.is_on, tuned.statement) == (False, True, TUNE)
    assert _options(connection) == ["deduplicate_items=off"]
    changed = set(catalogue(database, with_bodies=True)) ^ set(before)
    assert changed
    assert all("jobs_key_key1" in line for line in changed)

    untuned = sync_client.untune("key-index")

    assert (untuned.was_on, untuned.is_on, untuned.statement) == (True, False, UNTUNE)
    assert catalogue(database, with_bodies=True) == before


def test_a_second_time_nothing_is_changed(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    version = "select xmin from pg_class where oid = 'graphile_worker.jobs_key_key1'::regclass"
    assert sync_client.untune("key-index").statement is None
    sync_client.tune("key-index")
    row = connection.execute(version).fetchone()

    again = sync_client.tune("key-index")

    assert (again.was_on, again.is_on, again.statement) == (True, True, None)
    assert connection.execute(version).fetchone() == row


async def test_a_dry_run_says_what_would_be_done_and_changes_nothing(
    client: Client, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("task")
    await client.add_raw_job("task", {}, JobSpec(job_key="k"))

    plan = await client.tune("key-index", dry_run=True)

    assert (plan.was_on, plan.is_on, plan.statement) == (False, False, TUNE)
    assert (plan.jobs, plan.keyless_jobs, plan.size) == (2, 1, _size(connection))
    assert _options(connection) is None


def test_the_size_that_is_expected_comes_true_for_new_jobs(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    sync_client.add_raw_job("task")
    connection.execute(FILL)
    deduplicated = _size(connection)
    expected = sync_client.tune("key-index").expected_size
    connection.execute("truncate graphile_worker._private_jobs")

    connection.execute(FILL)

    assert _size(connection) == pytest.approx(expected, rel=0.1)
    assert _size(connection) > 2 * deduplicated


@pytest.mark.parametrize("value", ["off", "false", "0"])
def test_an_index_that_somebody_tuned_by_hand_counts_as_tuned(
    sync_client: SyncClient, connection: psycopg.Connection, value: str
) -> None:
    connection.execute(f"alter index graphile_worker.jobs_key_key1 set (deduplicate_items = {value})")

    assert sync_client.tune("key-index").statement is None
    assert sync_client.untune("key-index").was_on


def test_other_options_of_the_index_stay(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    connection.execute("alter index graphile_worker.jobs_key_key1 set (fillfactor = 80)")

    sync_client.tune("key-index")
    sync_client.untune("key-index")

    assert _options(connection) == ["fillfactor=80"]


def test_tuning_does_not_wait_for_those_who_work_on_jobs(sync_client: SyncClient, database: str) -> None:
    sync_client.add_raw_job("task")
    with psycopg.connect(database) as busy:
        busy.execute("update graphile_worker._private_jobs set locked_at = now(), locked_by = 'worker'")
        busy.execute("select graphile_worker.add_job('task', job_key => 'k')")

        sync_client.tune("key-index")

        busy.execute("select graphile_worker.add_job('task', job_key => 'l')")
    assert sync_client.counts().total == 3


def test_an_index_that_stays_locked_is_an_error_and_nothing_is_changed(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database) as other:
        other.execute("alter index graphile_worker.jobs_key_key1 set (fillfactor = 80)")

        with pytest.raises(DatabaseError, match=r"within 2 s\. Nothing was changed\. Try again later"):
            sync_client.tune("key-index")
        other.rollback()
    assert _options(connection) is None
    assert sync_client.tune("key-index").is_on  # the same connection can be used again


def test_a_role_that_does_not_own_the_index_is_refused_with_the_name_of_the_owner(
    connection: psycopg.Connection, database: str
) -> None:
    role = f"tuner_{os.getpid()}"
    (owner,) = connection.execute("select current_user::text").fetchone() or ()
    connection.execute(f"create role {role} login bypassrls password 'known'")
    connection.execute(f"grant usage on schema graphile_worker to {role}")
    connection.execute(f"grant all on all tables in schema graphile_worker to {role}")
    try:
        with SyncClient(make_conninfo(database, user=role, password="known")) as client:
            for operation in (client.tune, client.untune):
                with pytest.raises(DatabaseError, match=rf"{role} may not alter .* belongs to {owner}\. Nothing was"):
                    operation("key-index")
    finally:
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")
    assert _options(connection) is None


def test_an_index_that_is_missing_is_an_error_here_and_a_finding_of_the_doctor(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute("alter table graphile_worker._private_jobs drop constraint jobs_key_key1")

    with pytest.raises(IncompatibleSchemaError, match="no index jobs_key_key1, so nothing was changed"):
        sync_client.tune("key-index")

    finding = one(sync_client, "key_index")
    assert (finding.severity, finding.facts["is_there"]) == (Severity.WARNING, False)
    connection.execute(cast("LiteralString", finding.remedies[0]))
    assert one(sync_client, "key_index").severity is Severity.OK
    assert sync_client.tune("key-index").is_on


def test_a_database_without_the_schema_is_an_error(sick_server: EmbeddedPostgres) -> None:
    with (
        fresh_database(sick_server, "template0") as dsn,
        SyncClient(dsn) as client,
        pytest.raises(SchemaMissingError, match=r"nothing was changed\. Install the schema with `ferryman migrate`"),
    ):
        client.tune("key-index")


def test_an_unknown_option_is_an_error(sync_client: SyncClient) -> None:
    with pytest.raises(InvalidJobError, match=r"must be one of 'key-index'; got 'speed'\. Nothing was changed"):
        sync_client.tune("speed")


def test_a_schema_of_any_name_can_be_tuned(database: str) -> None:
    with SyncClient(database, schema="odd 'name\"") as client:
        client.migrate()

        assert client.tune("key-index").is_on
        assert one(client, "key_index").facts["deduplicates"] is False
        assert not client.untune("key-index").is_on


def test_a_tuned_schema_is_well_and_there_is_nothing_to_migrate(sync_client: SyncClient) -> None:
    status = sync_client.schema_status()
    sync_client.tune("key-index")

    report = sync_client.check_health()

    assert (report.severity, report.repairs) == (Severity.OK, ())
    assert report.of("key_index")[0].seen.endswith("tuned not to deduplicate")
    assert sync_client.migrate().outcome.value == "nothing"
    assert sync_client.schema_status() == status
    assert sync_client.tune("key-index").was_on  # neither has taken it back


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_node_starts_on_a_tuned_schema_adds_jobs_by_key_and_runs_them(
    sync_client: SyncClient, database: str, version: str
) -> None:
    sync_client.tune("key-index")
    before = catalogue(database, with_bodies=True)

    def add(payload: int) -> None:
        nodes.run(version, "add", database, jobs=[{"identifier": "task", "payload": payload, "spec": {"jobKey": "k"}}])

    nodes.run(version, "migrate", database)
    add(1)
    add(2)
    sync_client.add_raw_job("task", 3, JobSpec(job_key="k"))
    nodes.run(version, "addMany", database, specs=[{"identifier": "task", "payload": n} for n in (4, 5)])

    ran = nodes.run(version, "runOnce", database)

    assert sorted((job["key"] or "", job["payload"]) for job in ran) == [("", 4), ("", 5), ("k", 3)]
    assert sync_client.counts().total == 0
    assert catalogue(database, with_bodies=True) == before


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 B"), (8192, "8.2 kB"), (16384, "16 kB"), (6_000_000, "6 MB"), (21_135_360, "21 MB")]
)
def test_sizes_are_told_as_people_say_them(number: int, told: str) -> None:
    assert amount(number) == told
