"""Silent workers, and locks that are never released."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import psycopg
import pytest

from ferryman import HealthLimits, JobSpec, Repair, Severity
from ferryman.health import worker_checks
from ferryman.queries.advisory_locks import SWEEP_LOCK_CLASS, WATCH_CLASS, watch_key
from tests.health.looking import A_MOMENT, look, one, sweep
from tests.support.beats import SteppedLife
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from typing import LiteralString

    from ferryman import Client, SyncClient
    from tests.support.tables import Tables

RUST = "graphile_worker_0123456789abcdef01"


def _wedge(tables: Tables, holder: str, age: str) -> None:
    """A job of a queue is locked, and its row vanishes: a zombie has completed it, or an operator deleted it."""
    job_id = tables.held_job(holder, age=age, queue_name="q")
    tables.query("delete from graphile_worker._private_jobs where id = %s", job_id)
    tables.add_job(queue_name="q")


def _sweep_at(tables: Tables, worker_id: str, age: str) -> None:
    tables.query(
        "insert into graphile_worker._ferryman_lost_workers (worker_id, noticed_at, reason)"
        " values (%s, now() - %s::interval, 'silent')",
        worker_id,
        age,
    )


def _is_locked(tables: Tables) -> bool:
    return tables.queue("q")["locked_at"] is not None


@pytest.mark.parametrize("fate", ["nobody", "gone", "expired"])
def test_a_queue_whose_holder_is_certainly_gone_is_an_error_and_is_freed(
    sync_client: SyncClient, tables: Tables, fate: str
) -> None:
    _wedge(tables, "worker-1", "5 hours" if fate == "expired" else "1 hour")
    if fate == "gone":
        _sweep_at(tables, "worker-1", "30 minutes")
    if fate == "nobody":
        tables.query("update graphile_worker._private_job_queues set locked_by = null")

    finding = one(sync_client, "wedged_queues")
    assert (finding.severity, finding.facts["fate"]) == (Severity.ERROR, fate)
    assert finding.repair is Repair.WEDGED_QUEUES

    [done] = sync_client.repair_health([Repair.WEDGED_QUEUES])
    assert (done.number, done.names) == (1, ("q",))
    assert not _is_locked(tables)
    assert one(sync_client, "wedged_queues").severity is Severity.OK


@pytest.mark.parametrize("holder", ["worker-1", "ferryman-1", RUST])
def test_a_queue_whose_holder_may_live_is_told_but_freed_only_by_hand(
    sync_client: SyncClient, tables: Tables, connection: psycopg.Connection, holder: str
) -> None:
    _wedge(tables, holder, "1 hour")

    finding = one(sync_client, "wedged_queues")
    assert (finding.severity, finding.facts["fate"], finding.repair) == (Severity.WARNING, "unknown", None)
    assert sync_client.repair_health([Repair.WEDGED_QUEUES])[0].number == 0
    assert _is_locked(tables)

    connection.execute(cast("LiteralString", finding.remedies[0]))
    assert not _is_locked(tables)


def test_the_statement_for_the_hand_does_nothing_once_the_queue_has_changed_hands(
    sync_client: SyncClient, tables: Tables, connection: psycopg.Connection
) -> None:
    _wedge(tables, "worker-'1", "1 hour")
    finding = one(sync_client, "wedged_queues")
    tables.lock_queue("q", "worker-'1", "0 seconds")

    connection.execute(cast("LiteralString", finding.remedies[0]))

    assert _is_locked(tables)


def test_a_holder_that_locked_the_queue_after_it_was_taken_for_dead_may_live(
    sync_client: SyncClient, tables: Tables
) -> None:
    _sweep_at(tables, "worker-1", "2 hours")
    _wedge(tables, "worker-1", "1 hour")

    assert one(sync_client, "wedged_queues").facts["fate"] == "unknown"
    assert sync_client.repair_health([Repair.WEDGED_QUEUES])[0].number == 0


@pytest.mark.parametrize(
    ("holder", "lock_age", "severity"),
    [
        ("ferryman-1", "1 hour", Severity.NOTICE),
        ("ferryman-1", "5 hours", Severity.WARNING),
        (RUST, "1 hour", Severity.WARNING),
    ],
)
def test_the_lock_of_a_worker_that_beats_is_told_and_never_touched(
    sync_client: SyncClient, tables: Tables, holder: str, lock_age: str, severity: Severity
) -> None:
    tables.worker(holder, age="1 second")
    _wedge(tables, holder, lock_age)

    finding = one(sync_client, "wedged_queues")
    assert (finding.severity, finding.facts["fate"], finding.repair) == (severity, "alive", None)
    assert sync_client.repair_health([Repair.WEDGED_QUEUES])[0].number == 0
    assert _is_locked(tables)


def test_a_queue_of_a_silent_worker_is_freed_by_the_sweep_that_is_advised(
    sync_client: SyncClient, tables: Tables
) -> None:
    tables.worker("ferryman-1", age="1 hour")
    _wedge(tables, "ferryman-1", "2 hours")

    finding = one(sync_client, "wedged_queues", HealthLimits(silent_for=A_MOMENT))
    assert (finding.severity, finding.facts["fate"]) == (Severity.WARNING, "silent")
    assert finding.remedies == ("ferryman workers recover",)

    sweep(sync_client)
    assert one(sync_client, "wedged_queues").severity is Severity.OK


async def test_a_queue_that_is_claimed_during_the_repair_keeps_its_lock(
    client: Client, tables: Tables, connection: psycopg.Connection, database: str
) -> None:
    _wedge(tables, "worker-1", "5 hours")
    with psycopg.connect(database) as claimer:
        claimer.execute(
            "update graphile_worker._private_job_queues set locked_by = 'worker-1', locked_at = now()"
            " where queue_name = 'q'"
        )
        repairing = asyncio.create_task(client.repair_health([Repair.WEDGED_QUEUES]))
        await until(lambda: somebody_waits_for_a_lock(connection), "the repair waits for the queue")
        claimer.commit()

    [done] = await repairing
    assert done.number == 0
    assert _is_locked(tables)


def test_a_queue_with_its_job_is_not_wedged_however_old(sync_client: SyncClient, tables: Tables) -> None:
    tables.held_job("worker-1", age="5 hours", queue_name="q")

    assert one(sync_client, "wedged_queues").severity is Severity.OK
    assert sync_client.repair_health([Repair.WEDGED_QUEUES])[0].number == 0
    assert _is_locked(tables)


def test_a_silent_worker_is_a_warning_until_it_is_swept(sync_client: SyncClient, tables: Tables) -> None:
    tables.worker("dead", age="1 hour")
    tables.worker("slow", age="1 hour", beat_interval=7200)
    tables.held_job("dead")
    limits = HealthLimits(silent_for=A_MOMENT)

    finding = one(sync_client, "workers", limits)
    assert finding.severity is Severity.WARNING
    assert [worker["worker_id"] for worker in finding.facts["silent"]] == ["dead"]
    assert finding.facts["silent"][0]["jobs"] == 1

    sweep(sync_client)
    assert one(sync_client, "workers", limits).severity is Severity.OK


def test_metadata_that_others_wrote_spoils_nothing(sync_client: SyncClient, tables: Tables) -> None:
    tables.worker("huge", beat_interval=10**400)
    tables.worker("no number", age="1 second", beat_interval="often")
    _wedge(tables, "huge", "1 hour")

    assert one(sync_client, "workers").severity is Severity.OK
    assert one(sync_client, "wedged_queues").facts["fate"] == "alive"


def test_a_job_that_is_locked_for_more_than_four_hours_is_a_warning(sync_client: SyncClient, tables: Tables) -> None:
    tables.held_job("some worker", age="3 hours")
    assert one(sync_client, "long_locks").severity is Severity.OK
    old = tables.held_job("some worker", age="5 hours")

    finding = one(sync_client, "long_locks")

    assert finding.severity is Severity.WARNING
    assert finding.seen == f"some worker has had 1 job locked for up to 5 h: {old}"
    assert finding.remedies == ("ferryman workers recover --worker 'some worker'",)


def test_a_long_lock_of_a_worker_that_beats_is_no_reason_to_recover_its_job(
    sync_client: SyncClient, tables: Tables
) -> None:
    tables.worker("ferryman-1", age="1 second")
    tables.held_job("ferryman-1", age="5 hours")

    finding = one(sync_client, "long_locks")

    assert (finding.severity, finding.remedies) == (Severity.NOTICE, ())


def test_locks_of_workers_that_never_registered_are_a_notice_that_names_them(
    sync_client: SyncClient, tables: Tables
) -> None:
    limits = HealthLimits(silent_for=A_MOMENT)
    tables.worker("registered", age="1 second")
    tables.held_job("registered")
    assert one(sync_client, "unregistered_locks", limits).severity is Severity.OK
    held = tables.held_job("ferryman_unregistered-1", age="1 hour")

    finding = one(sync_client, "unregistered_locks", limits)

    assert finding.severity is Severity.NOTICE
    assert finding.seen.startswith(f"ferryman_unregistered-1 is not registered, holds 1 job ({held}) and has claimed ")
    assert finding.remedies == ("ferryman workers recover --worker ferryman_unregistered-1",)

    limits = HealthLimits(silent_for=A_MOMENT, locked_for=A_MOMENT)
    assert one(sync_client, "unregistered_locks", limits).severity is Severity.OK, "the check of long locks names it"


def test_locks_of_a_worker_whose_row_is_gone_are_a_warning(sync_client: SyncClient, tables: Tables) -> None:
    tables.held_job("ferryman-1", age="1 hour")
    finding = one(sync_client, "unregistered_locks", HealthLimits(silent_for=A_MOMENT))
    assert (finding.severity, finding.remedies) == (Severity.WARNING, ("ferryman workers recover",))


def test_a_lock_that_never_grows_old_is_a_warning(sync_client: SyncClient, tables: Tables) -> None:
    job_id = tables.held_job("maintenance")
    tables.query("update graphile_worker._private_jobs set locked_at = 'infinity'")
    finding = one(sync_client, "odd_times")
    assert (finding.severity, finding.facts["job_ids"]) == (Severity.WARNING, [job_id])
    assert one(sync_client, "unregistered_locks").facts["seconds"] is None


def test_a_job_that_is_never_due_is_a_notice(sync_client: SyncClient, tables: Tables) -> None:
    job_id = tables.add_job()["id"]
    tables.permanently_fail_jobs(tables.add_job()["id"])
    tables.query("update graphile_worker._private_jobs set run_at = 'infinity'")
    finding = one(sync_client, "odd_times")
    assert (finding.severity, finding.facts) == (
        Severity.NOTICE,
        {"column": "run_at", "jobs": 1, "job_ids": [job_id]},
    )


def test_wedged_queues_are_told_once_for_each_fate(sync_client: SyncClient, tables: Tables) -> None:
    for number in range(12):
        sync_client.add_raw_job("task", {}, JobSpec(queue_name=f"q{number:02}"))
    tables.query(
        "update graphile_worker._private_job_queues set locked_by = 'w', locked_at = now() - interval '5 hours'"
    )

    finding = one(sync_client, "wedged_queues")

    assert finding.facts["queues"] == 12
    assert finding.seen.endswith("q04 (by w) and 7 more")


@pytest.mark.parametrize("lock", ["sweep", "watch"])
def test_a_session_that_holds_a_lock_of_recovery_and_is_no_worker_is_named(
    sync_client: SyncClient, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    """At once, if it holds the lock of sweeps outside a transaction, as no sweep does."""
    assert one(sync_client, "recovery_locks").severity is Severity.OK
    connection.execute("set application_name = 'a stranger'")
    if lock == "sweep":
        connection.execute("select pg_advisory_lock(%s, hashtext('graphile_worker'))", [SWEEP_LOCK_CLASS])
    else:
        monkeypatch.setattr(worker_checks, "HELD_SECONDS", 0.0)
        keys = [WATCH_CLASS, watch_key(sync_client.schema)]
        connection.execute("select pg_advisory_lock(%s, %s)", keys)

    finding = one(sync_client, "recovery_locks")

    assert finding.severity is Severity.ERROR
    assert (finding.facts["lock"], finding.facts["pid"]) == (lock, connection.info.backend_pid)
    assert (finding.facts["application_name"], finding.facts["role"]) == ("a stranger", connection.info.user)


def test_a_sweep_and_a_worker_that_watches_are_no_strangers(
    sync_client: SyncClient, connection: psycopg.Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", [SWEEP_LOCK_CLASS])
        assert one(sync_client, "recovery_locks").severity is Severity.OK

    monkeypatch.setattr(worker_checks, "HELD_SECONDS", 0.0)
    life = SteppedLife(database)
    with closing(life.beats):
        life.step()
        assert life.beats.is_watching
        assert one(sync_client, "recovery_locks").severity is Severity.OK


WAITING = HealthLimits(waiting_for=A_MOMENT)


def test_a_job_that_waits_while_no_worker_runs_is_an_error(sync_client: SyncClient, tables: Tables) -> None:
    sync_client.add_raw_job("mail")
    tables.worker("ferryman-dead", "2 seconds", session_key=1, tasks=["mail"])  # killed: it holds no session

    assert one(sync_client, "waiting_jobs").severity is Severity.OK
    finding = one(sync_client, "waiting_jobs", WAITING)

    assert (finding.severity, finding.facts["fate"]) == (Severity.ERROR, "no worker")
    assert (finding.facts["jobs"], finding.facts["workers"]) == (1, 0)
    assert finding.seen.endswith("and no worker is running: mail (1)")


def test_a_job_of_a_task_that_no_worker_has_is_an_error_and_one_of_a_busy_worker_is_not(
    sync_client: SyncClient, tables: Tables
) -> None:
    for task in ("mail", "mail", "mial"):
        sync_client.add_raw_job(task)
    tables.worker("ferryman-1", "0 seconds", tasks=["mail"])

    unknown, busy = look(sync_client, "waiting_jobs", WAITING)

    assert (unknown.severity, unknown.facts["fate"]) == (Severity.ERROR, "unknown task")
    assert [each["task"] for each in unknown.facts["by_task"]] == ["mial"]
    assert "ferryman jobs complete <id>" in unknown.remedies
    assert (busy.severity, busy.facts["fate"], busy.facts["jobs"]) == (Severity.NOTICE, "busy", 2)
    tables.worker(RUST, "0 seconds")  # which does not say its tasks
    assert one(sync_client, "waiting_jobs", WAITING).facts["fate"] == "busy"


def test_jobs_that_wait_beside_a_worker_that_does_not_register_are_a_notice(
    sync_client: SyncClient, tables: Tables
) -> None:
    sync_client.add_raw_job("mail")
    tables.held_job("worker-of-node", age="1 hour")  # it is busy with a long job

    finding = one(sync_client, "waiting_jobs", WAITING)

    assert (finding.severity, finding.facts["fate"]) == (Severity.NOTICE, "unregistered")
    tables.query("update graphile_worker._private_jobs set locked_at = locked_at - interval '4 hours'")
    assert one(sync_client, "waiting_jobs", WAITING).facts["fate"] == "no worker"


def test_jobs_that_nobody_could_have_run_yet_do_not_wait(sync_client: SyncClient, tables: Tables) -> None:
    sync_client.add_raw_job("later", {}, JobSpec(run_at=datetime.now(UTC) + timedelta(hours=1)))
    sync_client.permanently_fail_jobs([sync_client.add_raw_job("failed").id])
    tables.worker("ferryman-1", "0 seconds", tasks=["task"])
    tables.held_job("ferryman-1", age="1 second", queue_name="q")
    tables.add_job(queue_name="q")

    assert one(sync_client, "waiting_jobs", WAITING).severity is Severity.OK


def test_a_worker_that_lost_its_session_is_told_after_two_of_its_beats(sync_client: SyncClient, tables: Tables) -> None:
    tables.worker("ferryman-1", "1 second", tasks=["mail"])
    assert one(sync_client, "workers").severity is Severity.OK

    tables.worker("ferryman-2", "1 second", session_key=1)
    finding = one(sync_client, "workers")

    assert finding.severity is Severity.WARNING
    assert [each["worker_id"] for each in finding.facts["silent"]] == ["ferryman-2"]
