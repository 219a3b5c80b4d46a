from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import App

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(database: str) -> App:
    """An application without tasks; each test defines its own."""
    return App(database)


@pytest.fixture
def ran(app: App) -> list[int]:
    """The numbers of the jobs that ran, of a task `note`."""
    numbers: list[int] = []

    @app.task
    async def note(number: int) -> None:
        numbers.append(number)

    return numbers


@pytest.fixture
def observer(database: str) -> Iterator[psycopg.Connection]:
    """A connection that is never in a transaction, where pg_stat_activity would show no newcomers."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened
