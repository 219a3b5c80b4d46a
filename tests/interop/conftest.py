from __future__ import annotations

import itertools
import os
from functools import cache
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman.schema import migrate
from tests.support import nodes
from tests.support.carrying import carry_out
from tests.support.once import once
from tests.support.rust_migrations import migrate_as_rust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.embedded import EmbeddedPostgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node_template(server: EmbeddedPostgres) -> Callable[[str], str]:
    """The name of a database that one version of Node's migrator has made, once for the run."""

    def make(version: str) -> str:
        name = f"node_template_{version.replace('.', '_')}"
        _admin(server, f"create database {name} template template0")
        nodes.run(version, "migrate", make_conninfo(server.dsn, dbname=name))
        return name

    return lambda version: once(f"node template {version}", lambda: make(version))


@pytest.fixture(scope="session")
def shared_database(
    server: EmbeddedPostgres, template: str, node_template: Callable[[str], str]
) -> Callable[[str], str]:
    """The DSN of a database for this process, as we ("ours") or one version of Node's migrator leave it."""

    @cache
    def shared(maker: str) -> str:
        name = f"shared_{os.getpid()}_{maker.replace('.', '_')}"
        _admin(server, f"create database {name} template {template if maker == 'ours' else node_template(maker)}")
        return make_conninfo(server.dsn, dbname=name)

    return shared


@pytest.fixture(scope="session")
def adopted_database(server: EmbeddedPostgres, shared_database: Callable[[str], str]) -> Callable[[str], str]:
    """The same with our extensions, and with the functions as they came; "rust" is what Rust makes of Node's 18."""

    @cache
    def adopted(maker: str) -> str:
        if maker == "ours":
            return shared_database(maker)
        source = conninfo_to_dict(shared_database("0.16" if maker == "rust" else maker))["dbname"]
        name = f"{source}_adopted_{maker.replace('.', '_')}"
        _admin(server, f"create database {name} template {source}")
        dsn = make_conninfo(server.dsn, dbname=name)
        if maker == "rust":
            migrate_as_rust(dsn)
        carry_out(dsn, migrate)
        return dsn

    return adopted


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
