from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tables import Tables

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def tables(connection: psycopg.Connection) -> Tables:
    """Those of a fresh install of ours."""
    return Tables(connection)
