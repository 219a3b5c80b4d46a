"""A database whose clock the tests move."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.model.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world(database: str, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    """Thousands of workers die here; nobody wants to read of each."""
    caplog.set_level(logging.CRITICAL, "ferryman")
    with World(database) as made:
        yield made
