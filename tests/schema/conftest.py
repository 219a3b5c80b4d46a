from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.functions import Functions

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def functions(connection: psycopg.Connection) -> Functions:
    """The SQL functions of a fresh install of ours."""
    return Functions(connection)
