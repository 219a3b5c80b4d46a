"""A schema that Node made is taken as it is; ours goes beside it."""

from __future__ import annotations

import msgspec
import pytest

from ferryman.schema import (
    LATEST_EXTENSION,
    Layout,
    Migration,
    MigrationOutcome,
    inspect,
    migrate,
    uninstall_extensions,
)
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.catalogue import OURS, catalogue
from tests.support.nodes import REVISIONS, VERSIONS

NodeDatabase = "Callable[[str], str]"


@pytest.mark.parametrize("version", VERSIONS)
def test_adoption_changes_nothing_of_nodes(node_database: NodeDatabase, version: str) -> None:
    dsn = node_database(version)
    before = catalogue(dsn, with_bodies=True)
    revision = REVISIONS[version]
    done = carry_out(dsn, migrate)
    assert msgspec.structs.replace(done, notices=()) == Migration(
        outcome=MigrationOutcome.ADOPTED, revision=revision, extensions_before=0, extensions_after=LATEST_EXTENSION
    )
    assert ["`ferryman schema give-way`" in notice for notice in done.notices] == [True] * (revision < 20)
    assert catalogue(dsn, with_bodies=True, without=OURS) == before
    assert carry_out(dsn, migrate).outcome is MigrationOutcome.NOTHING


@pytest.mark.parametrize("version", VERSIONS)
def test_an_adopted_schema_is_recognised(node_database: NodeDatabase, version: str) -> None:
    dsn = node_database(version)
    carry_out(dsn, migrate)
    status = carry_out(dsn, inspect)
    assert (status.layout, status.revision, status.compatible) == (Layout.GRAPHILE, REVISIONS[version], True)
    assert not status.functions_repaired


@pytest.mark.parametrize("version", VERSIONS)
def test_node_goes_on_in_an_adopted_schema(node_database: NodeDatabase, version: str) -> None:
    dsn = node_database(version)
    carry_out(dsn, migrate)
    nodes.run(version, "add", dsn, jobs=[{"identifier": "task", "payload": 1}])
    assert [job["payload"] for job in nodes.run(version, "runOnce", dsn)] == [1]


def test_node_can_upgrade_an_adopted_schema(node_database: NodeDatabase) -> None:
    adopted, theirs = node_database("0.16"), node_database("0.18")
    carry_out(adopted, migrate)
    nodes.run("0.18", "migrate", adopted)
    assert catalogue(adopted, with_bodies=True, without=OURS) == catalogue(theirs, with_bodies=True)
    assert carry_out(adopted, migrate).outcome is MigrationOutcome.NOTHING


@pytest.mark.parametrize("version", VERSIONS)
def test_uninstalling_gives_node_its_schema_back(node_database: NodeDatabase, version: str) -> None:
    dsn = node_database(version)
    before = catalogue(dsn, with_bodies=True)
    carry_out(dsn, migrate)
    carry_out(dsn, uninstall_extensions)
    assert catalogue(dsn, with_bodies=True) == before
