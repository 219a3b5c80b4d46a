from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman.schema import migrate
from tests.support import nodes
from tests.support.carrying import carry_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.embedded import EmbeddedPostgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node_template(server: EmbeddedPostgres) -> Callable[[str], str]:
    """The name of a database that one version of Node's migrator has made."""
    made: dict[str, str] = {}

    def template(version: str) -> str:
        if version not in made:
            name = f"node_template_{version.replace('.', '_')}"
            _admin(server, f"create database {name} template template0")
            nodes.run(version, "migrate", make_conninfo(server.dsn, dbname=name))
            made[version] = name
        return made[version]

    return template


@pytest.fixture(scope="session")
def shared_database(server: EmbeddedPostgres, node_template: Callable[[str], str]) -> Callable[[str], str]:
    """The DSN of a database for many tests, as we ("ours") or one version of Node's migrator leave it."""
    made: dict[str, str] = {}

    def shared(maker: str) -> str:
        if maker not in made:
            template = "template0" if maker == "ours" else node_template(maker)
            name = f"shared_{maker.replace('.', '_')}"
            _admin(server, f"create database {name} template {template}")
            made[maker] = make_conninfo(server.dsn, dbname=name)
            if maker == "ours":
                carry_out(made[maker], migrate)
        return made[maker]

    return shared


@pytest.fixture
def node_database(server: EmbeddedPostgres, node_template: Callable[[str], str]) -> Iterator[Callable[[str], str]]:
    """Makes fresh databases as one version of Node's migrator leaves them; gives their DSN."""
    copies: list[str] = []

    def copy(version: str) -> str:
        copies.append(f"node_{os.getpid()}_{next(_numbers)}")
        _admin(server, f"create database {copies[-1]} template {node_template(version)}")
        return make_conninfo(server.dsn, dbname=copies[-1])

    yield copy
    for name in copies:
        _admin(server, f"drop database {name} with (force)")


def _admin(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(statement)
