"""`ferryman cron list`, `pause`, `resume` and `run`: the schedules of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.schedulers import NOON, make_known

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import SyncClient
    from tests.support.commands import Ran


@pytest.fixture(autouse=True)
def _database(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database)


def test_a_list_of_nothing_says_so(run: Callable[..., Ran]) -> None:
    ran = run("cron", "list")
    assert ran == type(ran)(0, "There are no schedules, and no worker has brought a crontab along yet.\n", "")


def test_schedules_are_listed_with_the_crontabs_of_workers(
    run: Callable[..., Ran], sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    sync_client.schedules.add("0 8 * * * send_report ?id=daily", paused=True)
    sync_client.schedules.add("0 9 * * * send_report ?id=nine")
    make_known(connection, "of_node", NOON, NOON)
    ran = run("cron", "list")
    assert ran.code == 0
    [header, daily, nine, node] = ran.out.splitlines()
    assert header.split() == ["identifier", "task", "when", "state", "last", "next"]
    assert "paused" in daily
    assert "active" in nine
    assert "of workers" in node
    assert "2030-03-04T12:00:00Z" in node

    document = run("cron", "list", "--json").json
    assert [schedule["identifier"] for schedule in document["schedules"]] == ["daily", "nine"]
    assert document["schedules"][0]["next_run_at"] is None
    assert document["schedules"][1]["next_run_at"].endswith("T09:00:00Z")
    assert [crontab["identifier"] for crontab in document["crontabs_of_workers"]] == ["of_node"]


def test_a_schedule_is_paused_and_resumed(run: Callable[..., Ran], sync_client: SyncClient) -> None:
    sync_client.schedules.add("0 8 * * * send_report ?id=daily")
    ran = run("cron", "pause", "daily")
    assert (ran.code, ran.out) == (0, "Paused daily. It adds no jobs until it is resumed.\n")
    assert sync_client.schedules.list()[0].is_paused
    ran = run("cron", "resume", "daily")
    assert ran.out.startswith("Resumed daily. Next: 20")
    assert not sync_client.schedules.list()[0].is_paused
    assert run("cron", "pause", "daily", "--json").json["is_paused"] is True


def test_the_job_of_a_schedule_is_added_now(run: Callable[..., Ran], sync_client: SyncClient) -> None:
    sync_client.schedules.add("0 8 * * * send_report ?id=daily&priority=4")
    ran = run("cron", "run", "daily")
    [job] = sync_client.list_jobs().jobs
    assert (ran.code, ran.out) == (0, f"Added job {job.id} for send_report.\n")
    assert (job.task_identifier, job.priority) == ("send_report", 4)


@pytest.mark.parametrize("command", ["pause", "resume", "run"])
def test_a_schedule_that_is_not_there_is_named(run: Callable[..., Ran], command: str) -> None:
    ran = run("cron", command, "nobody", "--json")
    assert ran.code != 0
    assert ran.error["type"] == "UnknownScheduleError"
    assert "the database has no schedule 'nobody'" in ran.error["message"]


def test_a_schedule_that_cannot_be_read_is_listed_and_paused_with_its_problem(
    run: Callable[..., Ran], sync_client: SyncClient, connection: psycopg.Connection
) -> None:
    sync_client.schedules.add("0 8 * * * odd")
    connection.execute("update graphile_worker._ferryman_schedules set timing = 'x'")
    listed, paused = run("cron", "list"), run("cron", "pause", "odd")
    assert (listed.code, paused.code) == (0, 0)
    assert "unreadable" in listed.out
    assert "Paused odd. It adds no jobs, because it cannot be read: Invalid cron pattern 'x'" in paused.out
    [document] = run("cron", "list", "--json").json["schedules"]
    assert (document["identifier"], document["task"], document["is_paused"]) == ("odd", None, True)
    assert document["problem"].startswith("Invalid cron pattern 'x'")
