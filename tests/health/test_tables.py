"""Sequences that run out, dead rows that are not removed, unused queues and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import psycopg
import pytest

from ferryman import HealthLimits, JobSpec, Repair, Severity
from ferryman.database.identifiers import SchemaName
from ferryman.errors import DatabaseError
from ferryman.health.subject import Subject
from ferryman.health.table_checks import check_upkeep
from tests.health.looking import look, one
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from typing import LiteralString

    from ferryman import Finding, SyncClient
    from tests.support.tables import Tables

LAST = 2_147_483_647
FORGET = "delete from graphile_worker._private_jobs"


def _sequence(client: SyncClient, name: str) -> Finding:
    (found,) = [finding for finding in look(client, "sequences") if finding.facts["sequence"] == name]
    return found


@pytest.mark.parametrize("sequence", ["tasks_id_seq", "job_queues_id_seq"])
@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.24, Severity.OK), (0.3, Severity.NOTICE), (0.51, Severity.WARNING), (0.91, Severity.ERROR)],
)
def test_a_sequence_is_worse_the_nearer_it_is_to_its_end(
    sync_client: SyncClient, connection: psycopg.Connection, sequence: str, share: float, severity: Severity
) -> None:
    connection.execute("select setval(%s, %s)", [f"graphile_worker.{sequence}", int(LAST * share)])

    finding = _sequence(sync_client, sequence)

    assert finding.severity is severity
    assert f"{share:.0%}".replace("%", " %") in finding.seen


def test_a_sequence_that_has_ended_goes_on_after_the_statement_that_is_advised(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    sync_client.add_raw_job("old", {}, JobSpec(queue_name="old"))
    for sequence in ("tasks_id_seq", "job_queues_id_seq"):
        connection.execute("select setval(%s, %s)", [f"graphile_worker.{sequence}", LAST])
    with pytest.raises(DatabaseError, match="2200H"):
        sync_client.add_raw_job("new")

    for finding in look(sync_client, "sequences"):
        if finding.severity is Severity.ERROR:
            connection.execute(cast("LiteralString", finding.remedies[-1]))

    job = sync_client.add_raw_job("new", {}, JobSpec(queue_name="new"))
    assert (job.task_identifier, job.queue_name) == ("new", "new")
    assert {finding.severity for finding in look(sync_client, "sequences")} == {Severity.OK}


def test_the_numbers_to_begin_again_with_are_neither_taken_nor_referred_to(
    sync_client: SyncClient, connection: psycopg.Connection, tables: Tables
) -> None:
    connection.execute("select setval('graphile_worker.tasks_id_seq', 999999999)")
    tables.add_job("billion")
    job_id = tables.add_job("dangling")["id"]
    tables.query("update graphile_worker._private_jobs set task_id = 1000000500 where id = %s", job_id)

    remedy = _sequence(sync_client, "tasks_id_seq").remedies[-1]

    # From 1 to 999,999,999 less is free than from here to the end.
    assert remedy == "alter sequence graphile_worker.tasks_id_seq restart with 1000000501;"


def test_dead_rows_are_counted_and_vacuum_removes_them(
    sync_client: SyncClient, connection: psycopg.Connection, database: str
) -> None:
    limits = HealthLimits(dead_rows=90)
    for _ in range(100):
        sync_client.add_raw_job("task")
    with psycopg.connect(database) as forgetting:  # a session hands in what it has counted when it ends
        forgetting.execute(FORGET)

    (sick,) = until_blocking(lambda: _too_many_dead(sync_client, limits), "dead rows are counted")

    assert sick.severity is Severity.NOTICE
    assert sick.facts["dead"] >= 100
    assert sick.seen.startswith("_private_jobs: ")
    connection.execute(cast("LiteralString", sick.remedies[0]))
    until_blocking(lambda: not _too_many_dead(sync_client, limits), "dead rows are gone")


def _too_many_dead(client: SyncClient, limits: HealthLimits) -> list[Finding]:
    return [finding for finding in look(client, "dead_rows", limits) if finding.severity is not Severity.OK]


MINUTE = 60.0


@pytest.mark.parametrize(
    ("dead", "since", "severity"),
    [
        (99_999, 40 * MINUTE, Severity.OK),
        (150_000, 0.5 * MINUTE, Severity.NOTICE),
        (5_000_000, 4 * MINUTE, Severity.NOTICE),
        (150_000, 600 * MINUTE, Severity.NOTICE),  # what a quiet queue has when a batch of jobs ends
        (1_000_000, 6 * MINUTE, Severity.WARNING),
        (150_000, None, Severity.NOTICE),
        (1_000_000, None, Severity.WARNING),
    ],
)
def test_many_dead_rows_are_a_warning_only_where_autovacuum_has_not_come_for_several_rounds(
    dead: int, since: float | None, severity: Severity
) -> None:
    steps = check_upkeep(Subject(SchemaName("graphile_worker"), HealthLimits()))
    next(steps)
    with pytest.raises(StopIteration) as stopped:
        steps.send([("_private_jobs", 10, dead, since, True, True, MINUTE)])
    [finding] = stopped.value.value
    assert finding.severity is severity


def test_autovacuum_that_is_off_for_the_table_is_told_and_turned_on(
    sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    connection.execute("alter table graphile_worker._private_jobs set (autovacuum_enabled = off)")

    (sick,) = [finding for finding in look(sync_client, "dead_rows") if finding.severity is not Severity.OK]

    assert sick.severity is Severity.WARNING
    connection.execute(cast("LiteralString", sick.remedies[-1]))
    assert {finding.severity for finding in look(sync_client, "dead_rows")} == {Severity.OK}


def _many_queues(connection: psycopg.Connection, number: int) -> None:
    connection.execute(
        "insert into graphile_worker._private_job_queues (queue_name) select 'q' || n from generate_series(1, %s) n",
        [number],
    )


def test_many_unused_queues_are_noticed_and_deleted(sync_client: SyncClient, connection: psycopg.Connection) -> None:
    _many_queues(connection, 1000)
    job = sync_client.add_raw_job("task", {}, JobSpec(queue_name="used"))

    finding = one(sync_client, "queues")
    assert (finding.severity, finding.repair) == (Severity.NOTICE, Repair.UNUSED_QUEUES)
    assert finding.facts == {"queues": 1001, "unused": 1000}

    [done] = sync_client.repair_health([Repair.UNUSED_QUEUES])
    assert done.number == 1000
    assert one(sync_client, "queues").facts == {"queues": 1, "unused": 0}
    assert sync_client.get_job(job.id) == job


def test_ten_thousand_queues_are_too_many_even_if_all_are_used(
    sync_client: SyncClient, connection: psycopg.Connection, tables: Tables
) -> None:
    _many_queues(connection, 10_000)
    tables.add_job("task")
    connection.execute(
        "insert into graphile_worker._private_jobs (task_id, job_queue_id)"
        " select (select min(id) from graphile_worker._private_tasks), id from graphile_worker._private_job_queues"
    )

    finding = one(sync_client, "queues")

    assert (finding.severity, finding.repair) == (Severity.WARNING, None)
    assert finding.facts == {"queues": 10_000, "unused": 0}


def test_many_unused_tasks_are_noticed_and_deleted_but_for_those_that_are_known(
    sync_client: SyncClient, connection: psycopg.Connection, tables: Tables
) -> None:
    connection.execute(
        "insert into graphile_worker._private_tasks (identifier) select 'made-up-' || n from generate_series(1, 1001) n"
    )
    tables.worker("ferryman-1", tasks=["made-up-1", 7, {"no": "name"}])
    tables.worker("graphile_worker_1", tasks="nonsense")
    tables.policy("fail", "made-up-2")
    sync_client.schedules.add("0 3 * * * made-up-3")
    sync_client.add_raw_job("made-up-4")

    finding = one(sync_client, "tasks")
    assert (finding.severity, finding.repair) == (Severity.NOTICE, Repair.UNUSED_TASKS)

    [done] = sync_client.repair_health([Repair.UNUSED_TASKS])
    assert done.number == 997
    left = connection.execute("select identifier from graphile_worker._private_tasks order by 1").fetchall()
    assert left == [(f"made-up-{number}",) for number in (1, 2, 3, 4)]
    assert one(sync_client, "tasks").severity is Severity.OK
