from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.sick_server import fresh_database, server_of_its_own
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture(scope="session")
def sick_server() -> Iterator[EmbeddedPostgres]:
    with server_of_its_own() as started:
        yield started


@pytest.fixture
def database(sick_server: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(sick_server) as dsn:
        yield dsn


@pytest.fixture
def stage(connection: psycopg.Connection) -> Stage:
    return Stage(connection)
