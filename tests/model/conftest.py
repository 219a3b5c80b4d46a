"""A database whose clock the tests move."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.model.model_database import ModelDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def model_database(database: str, caplog: pytest.LogCaptureFixture) -> Iterator[ModelDatabase]:
    """Thousands of workers die here; nobody wants to read of each."""
    caplog.set_level(logging.CRITICAL, "ferryman")
    with ModelDatabase(database) as made:
        yield made
