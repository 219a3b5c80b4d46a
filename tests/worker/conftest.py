from __future__ import annotations

import pytest

from ferryman import App


@pytest.fixture
def app(database: str) -> App:
    """An application without tasks; each test defines its own."""
    return App(database)
