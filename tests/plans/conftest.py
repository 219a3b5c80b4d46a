"""Each test has a server of its own: what others do on a server decides when dead rows are left out of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture
def database(own_server: EmbeddedPostgres) -> str:
    return own_server.dsn
