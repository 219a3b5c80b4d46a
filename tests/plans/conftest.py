"""Databases that several tests share, because filling them takes seconds."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.embedded import EmbeddedPostgres

    Fresh: TypeAlias = Callable[[], AbstractContextManager[str]]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def fresh_database(server: EmbeddedPostgres, _template: str) -> Fresh:
    """Makes fresh databases with the schema installed, which go at the end of the block."""

    @contextmanager
    def make() -> Iterator[str]:
        names = {"name": sql.Identifier(f"plans_{next(_numbers)}"), "template": sql.Identifier(_template)}
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("create database {name} template {template}").format(**names))
            yield make_conninfo(server.dsn, dbname=names["name"].as_string().strip('"'))
            admin.execute(sql.SQL("drop database {name} with (force)").format(**names))

    return make
