"""A database to which nothing has happened, and one at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman import JobSpec, Severity
from ferryman.health.checking import OF_THE_SERVER, OF_THE_TABLES

if TYPE_CHECKING:
    from ferryman import Client, SyncClient
    from tests.support.tables import Tables


async def test_a_fresh_database_is_well_in_every_respect(client: Client) -> None:
    report = await client.check_health()

    assert [finding for finding in report.findings if finding.severity is not Severity.OK] == []
    assert {finding.check for finding in report.findings} == {*OF_THE_SERVER, "access", *OF_THE_TABLES}
    assert (report.severity, report.is_healthy, report.repairs) == (Severity.OK, True, ())


def test_a_queue_at_work_is_well(sync_client: SyncClient, tables: Tables) -> None:
    sync_client.add_raw_job("task", {}, JobSpec(queue_name="q"))
    tables.worker("ferryman-1", age="1 second", beat_interval=30)
    running = tables.held_job("ferryman-1", age="1 minute", queue_name="busy")
    tables.mark(running)

    report = sync_client.check_health()

    assert [finding for finding in report.findings if finding.severity is not Severity.OK] == []


def test_looking_changes_nothing_and_leaves_no_settings_behind(sync_client: SyncClient, tables: Tables) -> None:
    tables.held_job("dead", age="5 hours", queue_name="q")
    before = tables.jobs(), tables.queue("q")

    sync_client.check_health()

    assert (tables.jobs(), tables.queue("q")) == before
    sync_client.add_raw_job("task")  # on the same connection, which may write again
