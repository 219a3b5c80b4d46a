from __future__ import annotations

from ferryman.schema import inspect, migrate
from tests.support.carrying import carry_out
from tests.support.catalogue import OURS, catalogue
from tests.support.nodes import node_command, node_environment
from tests.support.processes import ForeignProgram, migrator, race


def test_node_and_we_install_at_the_same_moment(empty_database: str, node_database) -> None:
    theirs = [
        ForeignProgram(node_command(version, "race"), node_environment(empty_database))
        for version in ("0.18", "0.17", "0.18")
    ]
    outcomes = race([*theirs, *(migrator(empty_database) for _ in range(5))])
    assert outcomes[:3] == ["migrated"] * 3
    carry_out(empty_database, migrate)
    assert carry_out(empty_database, inspect).compatible
    assert catalogue(empty_database, without=OURS) == catalogue(node_database("0.18"))
