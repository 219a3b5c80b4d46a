"""Node starts on a schema of ours as if it had made it."""

from __future__ import annotations

import pytest

from tests.support import nodes
from tests.support.catalogue import catalogue
from tests.support.nodes import NodeError


@pytest.mark.parametrize("version", ["0.17", "0.18"])
def test_node_finds_nothing_to_migrate(database: str, version: str) -> None:
    before = catalogue(database, with_bodies=True)
    nodes.run(version, "runOnce", database)
    assert catalogue(database, with_bodies=True) == before


def test_an_old_node_sees_that_the_schema_is_too_new_for_it(database: str) -> None:
    with pytest.raises(NodeError, match="only supports up to revision 18"):
        nodes.run("0.16", "runOnce", database)
