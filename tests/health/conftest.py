from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman.health import server_checks
from tests.support.sick_server import fresh_database, joined_server
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture(autouse=True)
def _faultless_minor(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--postgres` may ask for a minor with known faults; all else about the server is well."""
    for faults in ("CHECKS_MOVED_ROWS", "RETURNS_NEW_ROWS"):
        monkeypatch.setattr(server_checks, faults, {})


@pytest.fixture(scope="session")
def sick_server(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    with joined_server(server) as started:
        yield started


@pytest.fixture
def database(sick_server: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(sick_server) as dsn:
        yield dsn


@pytest.fixture
def tables(connection: psycopg.Connection) -> Tables:
    return Tables(connection)
