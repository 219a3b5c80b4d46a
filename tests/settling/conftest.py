from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def tables(database: str) -> Iterator[Tables]:
    """The tables, outside of any transaction."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield Tables(connection)
