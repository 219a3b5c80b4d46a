"""Sicknesses of the server and of the way to it."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ferryman import Client, HealthLimits, Severity, SyncClient
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style
from ferryman.errors import ConfigurationError
from ferryman.health.server_checks import check_horizon, check_server
from ferryman.health.subject import Subject
from ferryman.queries.settle import complete_claims
from ferryman.worker.claiming.claims import EPOCH
from tests.health.looking import look, one
from tests.support.beats import over_tcp
from tests.support.network import PgBouncer
from tests.support.sick_server import copied_database, fills_notifications, fresh_database
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import LiteralString

    from ferryman import Finding
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.tables import Row, Tables

LONG = timedelta(microseconds=1)
"""For a test."""
SNAPSHOT = "select count(*) from graphile_worker._private_jobs"


@pytest.fixture(autouse=True)
def _faultless_minor() -> None:
    """Let the check of the server report the faults of minors here."""


@pytest.fixture
def database(sick_server: EmbeddedPostgres) -> Iterator[str]:
    """No other test uses the server: these tests affect all of its databases."""
    with fresh_database(sick_server, alone=True) as dsn:
        yield dsn


@pytest.fixture
def other(database: str) -> Iterator[psycopg.Connection]:
    """A session with a forgotten transaction."""
    with psycopg.connect(database, application_name="report") as opened:
        opened.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        yield opened


def _burn(connection: psycopg.Connection, transactions: int) -> None:
    for _ in range(transactions):
        connection.execute("select pg_current_xact_id()")


def test_a_forgotten_transaction_is_named_and_can_be_ended(
    sync_client: SyncClient, connection: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(SNAPSHOT)
    _burn(connection, 60)
    limits = HealthLimits(pinned_transactions=50, pinned_for=LONG)

    finding = one(sync_client, "pinned_rows", limits)

    assert finding.severity is Severity.WARNING
    assert finding.facts["transactions"] >= 60
    assert (finding.facts["name"], finding.facts["application"]) == (str(other.info.backend_pid), "report")
    assert finding.facts["state"] == "idle in transaction"
    [remedy] = finding.remedies
    assert connection.execute(cast("LiteralString", remedy)).fetchone() == (True,)
    with pytest.raises(psycopg.OperationalError):
        other.execute("select 1")
    assert one(sync_client, "pinned_rows", limits).severity is Severity.OK


def test_a_transaction_is_judged_by_its_age_too(sync_client: SyncClient, other: psycopg.Connection) -> None:
    other.execute(SNAPSHOT)
    assert one(sync_client, "pinned_rows").severity is Severity.OK

    finding = one(sync_client, "pinned_rows", HealthLimits(pinned_for=LONG))

    assert finding.severity is Severity.WARNING
    assert finding.facts["seconds"] > 0


def test_a_query_of_a_minute_is_well_however_many_transactions_begin_meanwhile(
    sync_client: SyncClient, connection: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(SNAPSHOT)
    _burn(connection, 60)

    finding = one(sync_client, "pinned_rows", HealthLimits(pinned_transactions=5))

    assert finding.severity is Severity.OK
    assert finding.facts["transactions"] >= 60


def test_ten_times_too_many_transactions_are_an_error(
    sync_client: SyncClient, connection: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(SNAPSHOT)
    _burn(connection, 60)

    limits = HealthLimits(pinned_transactions=5, pinned_for=LONG)
    assert one(sync_client, "pinned_rows", limits).severity is Severity.ERROR


def test_a_snapshot_in_another_database_holds_nothing_back_but_a_transaction_number_does(
    sync_client: SyncClient, connection: psycopg.Connection, sick_server: EmbeddedPostgres
) -> None:
    limits = HealthLimits(pinned_transactions=20, pinned_for=LONG)
    with psycopg.connect(sick_server.dsn) as elsewhere:
        elsewhere.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        elsewhere.execute("select count(*) from pg_class")
        _burn(connection, 30)
        assert one(sync_client, "pinned_rows", limits).severity is Severity.OK

        elsewhere.execute("select pg_current_xact_id()")
        _burn(connection, 30)
        assert one(sync_client, "pinned_rows", limits).facts["name"] == str(elsewhere.info.backend_pid)


def test_a_prepared_transaction_is_named_and_can_be_undone(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    limits = HealthLimits(pinned_transactions=20, pinned_for=LONG)
    with psycopg.connect(database) as preparing:
        preparing.execute("select pg_current_xact_id()")
        preparing.execute("prepare transaction 'nobody''s'")
    _burn(connection, 30)

    finding = one(sync_client, "pinned_rows", limits)

    assert (finding.facts["kind"], finding.facts["name"]) == ("prepared transaction", "nobody's")
    connection.execute(cast("LiteralString", finding.remedies[0]))
    assert one(sync_client, "pinned_rows", limits).severity is Severity.OK


def test_a_logical_replication_slot_holds_back_no_rows_of_jobs_and_nobody_is_told_to_drop_it(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    limits = HealthLimits(pinned_transactions=20, pinned_for=LONG)
    connection.execute("select pg_create_logical_replication_slot('debezium', 'pgoutput')")
    try:
        sync_client.add_raw_job("task")
        connection.execute("delete from graphile_worker._private_jobs")
        _burn(connection, 30)

        assert one(sync_client, "pinned_rows", limits).severity is Severity.OK
        until_blocking(lambda: _jobs_are_vacuumed_away(connection), "vacuum removes the dead row")
        slot = one(sync_client, "replication_slots", limits)
        assert (slot.severity, slot.facts["name"], slot.facts["is_active"]) == (Severity.NOTICE, "debezium", False)
        assert slot.facts["retained_wal"] > 0
        assert not any("drop" in remedy for remedy in slot.remedies)
        connection.execute(cast("LiteralString", slot.remedies[0]))
        assert one(sync_client, "replication_slots").severity is Severity.OK
        assert one(sync_client, "replication_slots", HealthLimits(retained_wal=1)).severity is Severity.NOTICE
    finally:
        connection.execute("select pg_drop_replication_slot('debezium')")


def _jobs_are_vacuumed_away(connection: psycopg.Connection) -> bool:
    connection.execute("vacuum graphile_worker._private_jobs")
    return connection.execute("select pg_relation_size('graphile_worker._private_jobs')").fetchone() == (0,)


@pytest.mark.parametrize(
    ("kind", "state", "transactions", "severity"),
    [
        ("replication slot", "inactive", 100_000, Severity.WARNING),
        ("replication slot", "inactive", 1_000_000, Severity.ERROR),
        ("replication slot", "active", 100_000, Severity.OK),
        ("standby", "active", 100_000, Severity.OK),
        ("standby", "active", 1_000_000, Severity.WARNING),
    ],
)
def test_a_standby_or_physical_slot_is_judged_by_transactions_alone(
    kind: str, state: str, transactions: int, severity: Severity
) -> None:
    steps = check_horizon(Subject(SchemaName("graphile_worker"), HealthLimits()))
    next(steps)
    steps.send([(kind, "replica", None, None, state, None, None, transactions)])
    with pytest.raises(StopIteration) as stopped:
        steps.send([(0,)])
    [finding] = stopped.value.value
    assert finding.severity is severity


@fills_notifications
def test_a_listener_that_sits_in_a_transaction_fills_the_queue_of_notifications(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("listen anything")
        listener.execute("begin")
        for _ in range(30):
            connection.execute("select pg_notify('anything', repeat('x', 7900))")

        finding = one(sync_client, "notifications")
        assert finding.severity is Severity.WARNING
        assert finding.facts["used"] > 0.25

        listener.execute("commit")
        listener.execute("select 1")
        assert one(sync_client, "notifications").severity is Severity.OK


def test_few_free_connections_are_told(sync_client: SyncClient, connection: psycopg.Connection, database: str) -> None:
    name = str(conninfo_to_dict(database)["dbname"])
    connection.execute(f'alter database "{name}" connection limit 6')
    with contextlib.ExitStack() as taken:
        for _ in range(3):
            taken.enter_context(psycopg.connect(database))

        finding = one(sync_client, "connections")

        assert finding.severity is Severity.WARNING
        assert finding.seen == "5 of 6 connections to this database taken (83 %)"
        taken.enter_context(psycopg.connect(database))
        assert one(sync_client, "connections").severity is Severity.ERROR


async def test_a_pooler_in_front_is_noticed(database: str, sick_server: EmbeddedPostgres, server_folder: Path) -> None:
    with PgBouncer(over_tcp(sick_server, database), server_folder) as bouncer:
        async with Client(bouncer.dsn) as client:
            report = await client.check_health()
        with SyncClient(bouncer.dsn) as sync_client:
            again = sync_client.check_health()

    for seen in (report, again):
        [finding] = seen.of("pooler")
        assert finding.severity is Severity.NOTICE
        assert "ferryman worker … --no-listen" in finding.remedies
        assert seen.is_healthy


def test_autovacuum_that_is_off_for_the_server_is_told(server: EmbeddedPostgres, template: str) -> None:
    with copied_database(server.dsn, template) as dsn, SyncClient(dsn) as client:
        assert {finding.severity for finding in look(client, "dead_rows")} == {Severity.WARNING}
        assert "off for the whole server" in str(look(client, "dead_rows")[0].meaning)


@pytest.mark.parametrize(
    ("version", "severity", "update_to"),
    [
        (140005, Severity.WARNING, "14.20"),
        (140008, Severity.WARNING, "14.20"),
        (140009, Severity.NOTICE, "14.20"),
        (140019, Severity.NOTICE, "14.20"),
        (140020, Severity.OK, None),
        (150002, Severity.WARNING, "15.15"),
        (150003, Severity.NOTICE, "15.15"),
        (150014, Severity.NOTICE, "15.15"),
        (150015, Severity.OK, None),
        (160010, Severity.NOTICE, "16.11"),
        (160011, Severity.OK, None),
        (170006, Severity.NOTICE, "17.7"),
        (170007, Severity.OK, None),
        (180000, Severity.OK, None),
    ],
)
def test_a_minor_whose_faults_can_harm_a_queue_is_told_with_the_minor_that_has_none(
    version: int, severity: Severity, update_to: str | None
) -> None:
    finding = _judged(version)

    assert finding.severity is severity
    assert (finding.meaning is None) == (update_to is None)
    assert update_to is None or f"Update the server to {update_to} or newer." in str(finding.meaning)


def test_only_a_minor_that_returns_old_rows_speaks_of_workers_of_node() -> None:
    assert "can run a job with an old payload" in str(_judged(140005).meaning)
    assert "old payload" not in str(_judged(140009).meaning)


def test_an_old_minor_of_a_standby_or_of_a_major_that_is_too_old_is_not_worth_a_word() -> None:
    assert "takes no writes" in str(_judged(140005, is_standby=True).meaning)
    assert "needs PostgreSQL 14 or newer" in str(_judged(130009).meaning)


def test_the_version_of_this_very_server_is_judged(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    assert one(sync_client, "server") == _judged(connection.info.server_version)


def _judged(version: int, *, is_standby: bool = False) -> Finding:
    """The finding about a server with this version."""
    steps = check_server(Subject(SchemaName("graphile_worker"), HealthLimits()))
    next(steps)
    with pytest.raises(StopIteration) as stopped:
        steps.send([(version, is_standby)])
    [finding] = stopped.value.value
    return finding


def test_limits_must_be_more_than_nothing() -> None:
    with pytest.raises(ConfigurationError, match="pinned_for must be positive"):
        HealthLimits(pinned_for=timedelta())


TOUCH = "update graphile_worker._private_jobs set priority = priority where id = %s"


def _settle(worker: psycopg.Connection, jobs: Sequence[Row]) -> None:
    """Complete jobs as a worker does, but with more patience than a slow machine needs, and take it back."""
    keys = [(job["id"], (job["locked_at"] - EPOCH) // timedelta(microseconds=1), 0) for job in jobs]
    call = complete_claims("ferryman-1", keys, patience="5min")
    text = call.statement.text(SchemaName("graphile_worker"), Style.NUMBERED)
    psycopg.RawCursor(worker).execute(text, call.statement.ordered(call.parameters))
    worker.rollback()


def _waits(connection: psycopg.Connection, other: psycopg.Connection) -> bool:
    waiting = "select cardinality(pg_blocking_pids(%s)) > 0"
    return connection.execute(waiting, [other.info.backend_pid]).fetchone() == (True,)


def _settings(finding: Finding) -> dict[str, float]:
    return {each["place"]: each["milliseconds"] for each in finding.facts["settings"]}


def test_a_server_that_looks_for_deadlocks_after_a_second_is_well(sync_client: SyncClient) -> None:
    finding = one(sync_client, "deadlock_timeout")

    assert finding.severity is Severity.OK
    assert finding.seen == "PostgreSQL looks for deadlocks after 1,000 ms for this session"


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("10", Severity.WARNING),
        ("100ms", Severity.WARNING),
        ("0.1s", Severity.WARNING),
        ("101", Severity.NOTICE),
        ("200 ms", Severity.NOTICE),
        ("201ms", Severity.OK),
        ("2min", Severity.OK),
    ],
)
def test_a_database_that_looks_for_deadlocks_while_settlements_wait_is_told(
    sync_client: SyncClient, connection: psycopg.Connection, database: str, value: str, severity: Severity
) -> None:
    name = str(conninfo_to_dict(database)["dbname"])
    connection.execute(f"alter database {name} set deadlock_timeout = '{value}'")

    finding = one(sync_client, "deadlock_timeout")

    assert finding.severity is severity
    with psycopg.connect(database) as fresh:
        shown = fresh.execute("select setting::float8 from pg_settings where name = 'deadlock_timeout'").fetchone()
    assert shown == (_settings(finding)[f"the database {name}"],)


def test_a_deadlock_timeout_in_an_odd_form_is_read_from_the_session(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    connection.execute(f"alter database {conninfo_to_dict(database)['dbname']} set deadlock_timeout = '1e2'")

    with SyncClient(database) as fresh:
        assert one(fresh, "deadlock_timeout").facts["milliseconds"] == 100


def test_short_deadlock_timeouts_of_other_roles_are_told_and_the_remedies_take_them_back(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    name = str(conninfo_to_dict(database)["dbname"])
    role = f'producer "{os.getpid()}"'
    quoted = '"' + role.replace('"', '""') + '"'
    connection.execute(f"create role {quoted}")
    try:
        connection.execute(f"alter role {quoted} set deadlock_timeout = '150ms'")
        connection.execute(f"alter role {quoted} in database {name} set deadlock_timeout = '50ms'")
        connection.execute(f"alter role all in database {name} set deadlock_timeout = '60ms'")

        findings = look(sync_client, "deadlock_timeout")

        assert [(finding.facts["place"], finding.severity) for finding in findings] == [
            (f"the role {role} in the database {name}", Severity.WARNING),
            (f"the database {name}", Severity.WARNING),
            (f"the role {role}", Severity.NOTICE),
        ]
        assert all("fails with 40P01" in str(finding.meaning) for finding in findings)
        for finding in findings:
            connection.execute(cast("LiteralString", finding.remedies[0]))
        assert one(sync_client, "deadlock_timeout").severity is Severity.OK
    finally:
        connection.execute(f"drop role {quoted}")


def test_a_short_deadlock_timeout_of_other_databases_is_their_own_business(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute("alter database postgres set deadlock_timeout = '50ms'")
    try:
        assert one(sync_client, "deadlock_timeout").severity is Severity.OK
    finally:
        connection.execute("alter database postgres reset deadlock_timeout")


def test_a_short_deadlock_timeout_of_the_whole_server_is_told(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    connection.execute("alter system set deadlock_timeout = '20ms'")
    connection.execute("select pg_reload_conf()")
    try:
        with SyncClient(database) as fresh:
            until_blocking(
                lambda: one(fresh, "deadlock_timeout").facts.get("place") == "this session", "the server reloads"
            )
            finding = one(fresh, "deadlock_timeout")

        assert (finding.severity, finding.facts["milliseconds"]) == (Severity.WARNING, 20)
    finally:
        connection.execute("alter system reset deadlock_timeout")
        connection.execute("select pg_reload_conf()")
        until_blocking(lambda: one(sync_client, "deadlock_timeout").severity is Severity.OK, "the server reloads")


def test_what_is_said_of_a_short_deadlock_timeout_is_true(
    connection: psycopg.Connection, database: str, tables: Tables
) -> None:
    """A settlement holds the first job and waits for the second; an application holds that one and wants the first."""
    connection.execute(f"alter database {conninfo_to_dict(database)['dbname']} set deadlock_timeout = '10ms'")
    jobs = [tables.job(tables.held_job("ferryman-1", age="1 second")) for _ in range(2)]
    with psycopg.connect(database) as worker, psycopg.connect(database) as application, ThreadPoolExecutor(1) as pool:
        worker.execute("set deadlock_timeout = '1h'")  # so that it is known who looks first
        application.execute(TOUCH, [jobs[1]["id"]])
        settling = pool.submit(_settle, worker, jobs)
        until_blocking(lambda: _waits(connection, worker), "the settlement waits for the second job")
        with pytest.raises(psycopg.errors.DeadlockDetected):
            application.execute(TOUCH, [jobs[0]["id"]])
        application.rollback()
        settling.result()
