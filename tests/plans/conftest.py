"""Databases that several tests share, because filling them takes seconds."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.server import Databases

    Fresh: TypeAlias = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def fresh_database(_databases: Databases) -> Fresh:
    """Makes fresh databases with the schema installed, which go at the end of the block."""

    @contextmanager
    def make() -> Iterator[str]:
        dsn = _databases.take()
        yield dsn
        _databases.give_back(dsn)

    return make
