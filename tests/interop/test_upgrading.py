"""Upgrading is for those who ask: then an old schema of Node's becomes what 0.18 would have made of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ferryman.schema import Upgrade, inspect, upgrade
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.catalogue import catalogue
from tests.support.listening import heard
from tests.support.nodes import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    NodeDatabase = Callable[[str], str]

ANNOUNCEMENTS = {19: '{"migrationNumber":19,"breaking":true}', 20: '{"migrationNumber":20,"breaking":false}'}


@pytest.mark.parametrize(("version", "revision"), [("0.16", 18), ("0.17", 19)])
def test_an_upgrade_ends_where_nodes_would(node_database: NodeDatabase, version: str, revision: int) -> None:
    upgraded, theirs = node_database(version), node_database("0.18")
    assert carry_out(upgraded, upgrade) == Upgrade(revision_before=revision, revision_after=20, functions_repaired=True)
    assert catalogue(upgraded) == catalogue(theirs)


@pytest.mark.parametrize(("version", "revisions"), [("0.16", [19, 20]), ("0.17", [20]), ("0.18", [])])
def test_an_upgrade_is_announced_as_node_announces_it(
    node_database: NodeDatabase, version: str, revisions: list[int]
) -> None:
    dsn = node_database(version)
    with heard(dsn, "worker:migrate") as announcements:
        carry_out(dsn, upgrade)
    assert announcements == [ANNOUNCEMENTS[revision] for revision in revisions]


def test_nodes_own_announcements_look_the_same(node_database: NodeDatabase) -> None:
    dsn = node_database("0.16")
    with heard(dsn, "worker:migrate") as announcements:
        nodes.run("0.18", "migrate", dsn)
    assert [json.loads(payload) for payload in announcements] == [json.loads(ANNOUNCEMENTS[n]) for n in (19, 20)]


def test_at_revision_20_only_function_bodies_are_repaired(node_database: NodeDatabase) -> None:
    dsn = node_database("0.18")
    before = catalogue(dsn)
    assert carry_out(dsn, upgrade) == Upgrade(revision_before=20, revision_after=20, functions_repaired=True)
    assert catalogue(dsn) == before
    assert carry_out(dsn, inspect).functions_repaired


def test_a_second_upgrade_does_nothing(node_database: NodeDatabase) -> None:
    dsn = node_database("0.17")
    carry_out(dsn, upgrade)
    before = catalogue(dsn, with_bodies=True)
    assert carry_out(dsn, upgrade) == Upgrade(revision_before=20, revision_after=20, functions_repaired=False)
    assert catalogue(dsn, with_bodies=True) == before


def test_after_an_upgrade_new_nodes_work_and_old_ones_refuse(node_database: NodeDatabase) -> None:
    dsn = node_database("0.16")
    carry_out(dsn, upgrade)
    nodes.run("0.18", "add", dsn, jobs=[{"identifier": "task", "payload": 1}])
    assert [job["payload"] for job in nodes.run("0.17", "runOnce", dsn)] == [1]
    with pytest.raises(NodeError, match="only supports up to revision 18"):
        nodes.run("0.16", "runOnce", dsn)
