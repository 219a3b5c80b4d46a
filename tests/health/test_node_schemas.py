"""Schemas that real versions of Graphile Worker made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import Severity, SyncClient
from tests.support import nodes
from tests.support.nodes import VERSIONS
from tests.support.once import once
from tests.support.sick_server import company, create_database, fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.embedded import EmbeddedPostgres

UNKNOWN = {
    "wedged_queues", "workers", "long_locks", "unregistered_locks", "recovery_locks", "old_failed_jobs",
    "poisoned_jobs", "leftovers", "waiting_jobs",
}  # fmt: skip


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node_made(version: str, sick_server: EmbeddedPostgres) -> Iterator[str]:
    """A database that one version of Node has migrated and used."""
    with company(sick_server):
        template = once(f"health template of {version}", lambda: _make_template(version, sick_server.dsn))
    with fresh_database(sick_server, template) as dsn:
        yield dsn


def _make_template(version: str, dsn: str) -> str:
    name = f"health_node_{version.replace('.', '_')}"
    made = create_database(dsn, name)
    nodes.run(version, "migrate", made)
    nodes.run(version, "add", made, jobs=[{"identifier": "task", "payload": 1, "spec": {"queueName": "q"}}])
    return name


def test_a_schema_that_node_made_is_looked_at_as_far_as_it_goes(node_made: str) -> None:
    with SyncClient(node_made) as client:
        report = client.check_health()

        warned = {finding.check for finding in report.findings if finding.severity is Severity.WARNING}
        noticed = {finding.check for finding in report.findings if finding.severity is Severity.NOTICE}
        assert (warned, noticed) == ({"schema"}, UNKNOWN)
        assert [finding.remedies for finding in report.of("schema")] == [
            ("ferryman migrate",),
            ("ferryman schema upgrade",),
        ]


def test_what_is_advised_for_a_schema_that_node_made_makes_all_well(node_made: str) -> None:
    with SyncClient(node_made) as client, psycopg.connect(node_made, autocommit=True) as connection:
        client.migrate()
        client.upgrade_schema()
        # The schema was made once for all tests, and its job may have waited for so long that this is told.
        connection.execute("update graphile_worker._private_jobs set run_at = now()")

        assert client.check_health().severity is Severity.OK


def test_a_dangling_job_is_mended_and_node_runs_it(node_made: str, version: str) -> None:
    with SyncClient(node_made) as client, psycopg.connect(node_made, autocommit=True) as connection:
        connection.execute("delete from graphile_worker._private_job_queues")
        assert nodes.run(version, "runOnce", node_made) == []

        [finding] = client.check_health().of("dangling_jobs")
        assert finding.repair is not None
        client.repair_health([finding.repair])

        assert client.check_health().of("dangling_jobs")[0].severity is Severity.OK
        assert [job["payload"] for job in nodes.run(version, "runOnce", node_made)] == [1]
