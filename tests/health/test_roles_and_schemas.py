"""Roles that may not see everything, schemas that are not complete, and checks that fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman import Severity, SyncClient
from ferryman.health.checking import OF_THE_SERVER, OF_THE_TABLES
from tests.health.looking import look
from tests.support.sick_server import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

    from ferryman import HealthReport
    from ferryman.embedded import EmbeddedPostgres

TABLES = "graphile_worker._private_jobs, graphile_worker._private_job_queues, graphile_worker._private_tasks"
WATCHER = f"watcher_{os.getpid()}"
"""Roles are of the whole server, on which other processes of the run test too."""


@pytest.fixture
def watcher(database: str, connection: psycopg.Connection) -> Iterator[SyncClient]:
    """A role that may connect, and nothing else yet."""
    connection.execute(f"create role {WATCHER} login password 'known'")
    with SyncClient(make_conninfo(database, user=WATCHER, password="known")) as client:
        yield client
    connection.execute(f"drop owned by {WATCHER} cascade")
    connection.execute(f"drop role {WATCHER}")


def _bad(report: HealthReport) -> dict[str, Severity]:
    return {finding.check: finding.severity for finding in report.findings if finding.severity is not Severity.OK}


def test_a_role_that_may_read_nothing_is_told_so_and_the_server_is_looked_at_all_the_same(
    watcher: SyncClient, connection: psycopg.Connection
) -> None:
    report = watcher.check_health()

    [finding] = report.of("access")
    assert finding.severity is Severity.NOTICE
    assert finding.seen.startswith(f"the role {WATCHER} may not read _private_job_queues")
    assert report.of("server")[0].severity is Severity.OK
    assert report.of("dangling_jobs") == ()
    hidden = report.of("pinned_rows")[-1]
    assert (hidden.severity, hidden.facts["hidden"] > 0) == (Severity.NOTICE, True)
    assert report.is_healthy


def test_a_role_to_which_row_security_shows_nothing_is_told_so(
    watcher: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute(f"grant usage on schema graphile_worker to {WATCHER}")
    connection.execute(f"grant select on all tables in schema graphile_worker to {WATCHER}")

    report = watcher.check_health()

    [finding] = report.of("access")
    assert finding.severity is Severity.WARNING
    assert finding.seen.startswith("row security hides rows of _private_job_queues")
    assert not report.is_healthy
    assert not {finding.check for finding in report.findings} & set(OF_THE_TABLES)


def test_a_role_that_may_read_some_tables_learns_what_they_tell(
    watcher: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute(f"alter role {WATCHER} bypassrls")
    connection.execute(f"grant pg_read_all_stats to {WATCHER}")
    connection.execute(f"grant usage on schema graphile_worker to {WATCHER}")
    connection.execute(f"grant select on {TABLES} to {WATCHER}")

    report = watcher.check_health()

    assert {finding.check for finding in report.findings} == {*OF_THE_SERVER, "access", *OF_THE_TABLES}
    assert report.of("dangling_jobs")[0].severity is Severity.OK
    for check in ("waiting_jobs", "wedged_queues", "workers", "poisoned_jobs", "leftovers", "sequences"):
        assert _bad(report)[check] is Severity.NOTICE
    assert "permission denied" in report.of("workers")[0].seen
    for finding in report.of("sequences"):
        connection.execute(cast("LiteralString", finding.remedies[0].replace("<this role>", WATCHER)))
    assert {finding.severity for finding in look(watcher, "sequences")} == {Severity.OK}


def test_a_database_without_the_schema_is_an_error_and_not_a_crash(sick_server: EmbeddedPostgres) -> None:
    with fresh_database(sick_server, "template0") as dsn, SyncClient(dsn) as client:
        report = client.check_health()

        assert _bad(report) == {"schema": Severity.ERROR}
        assert report.of("schema")[0].remedies == ("ferryman migrate",)
        assert {finding.check for finding in report.findings} == set(OF_THE_SERVER)
        client.migrate()
        assert _bad(client.check_health()) == {}


def test_missing_extensions_are_a_warning_and_leave_the_other_checks_alone(sync_client: SyncClient) -> None:
    sync_client.uninstall_extensions()

    report = sync_client.check_health()

    assert _bad(report) == {
        "schema": Severity.WARNING,
        "waiting_jobs": Severity.NOTICE,
        "wedged_queues": Severity.NOTICE,
        "workers": Severity.NOTICE,
        "recovery_locks": Severity.NOTICE,
        "long_locks": Severity.NOTICE,
        "unregistered_locks": Severity.NOTICE,
        "old_failed_jobs": Severity.NOTICE,
        "poisoned_jobs": Severity.NOTICE,
        "leftovers": Severity.NOTICE,
    }
    assert report.of("workers")[0].remedies == ("ferryman migrate",)
    sync_client.migrate()
    assert _bad(sync_client.check_health()) == {}


def test_functions_that_are_not_ours_are_a_warning_until_the_upgrade(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute(
        """
        do $$ begin execute (
            select replace(pg_get_functiondef(oid), 'ferryman_', 'someone_')
            from pg_proc where proname = 'add_job' and pronamespace = 'graphile_worker'::regnamespace
        ); end $$
        """
    )

    [finding] = look(sync_client, "schema")

    assert finding.severity is Severity.WARNING
    assert finding.remedies == ("ferryman schema upgrade",)
    sync_client.upgrade_schema()
    assert [finding.severity for finding in look(sync_client, "schema")] == [Severity.OK]


def test_a_check_that_fails_is_a_finding_and_the_others_are_made(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute("alter table graphile_worker._ferryman_crashes rename decision to verdict")

    report = sync_client.check_health()

    assert _bad(report) == {"poisoned_jobs": Severity.WARNING}
    [finding] = report.of("poisoned_jobs")
    assert finding.seen == "could not be checked: column crash.decision does not exist"
    assert report.of("leftovers")[0].severity is Severity.OK


def test_a_table_that_somebody_locks_is_not_waited_for(sync_client: SyncClient, database: str) -> None:
    with psycopg.connect(database) as owner:
        owner.execute("lock table graphile_worker._ferryman_crashes in access exclusive mode")

        report = sync_client.check_health()

    assert _bad(report) == {"poisoned_jobs": Severity.WARNING}
    assert report.of("poisoned_jobs")[0].facts["sqlstate"] == "55P03"


async def test_a_schema_of_any_name_can_be_looked_at_and_mended(database: str) -> None:
    with SyncClient(database, schema="odd 'name\"") as client:
        client.migrate()
        client.add_raw_job("task")

        assert _bad(client.check_health()) == {}
        done = client.repair_health(["wedged-queues", "dangling-queues", "dangling-tasks", "leftovers"])
        assert [one.number for one in done] == [0, 0, 0, 0]
