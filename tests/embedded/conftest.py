"""Folders of servers: never started, or made before; and processes that use them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ferryman.embedded import EmbeddedPostgres
from tests.support.embedded_processes import User, end_all
from tests.support.own_servers import copy_made_server
from tests.support.server import quick_place, reachable_folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every account may pass through."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture
def fresh_folder() -> Iterator[Path]:
    """The folder of a server that was never started; whatever runs in it is ended after the test."""
    with reachable_folder(quick_place()) as parent:
        yield parent / "server"
        end_all(parent / "server")


@pytest.fixture
def spare_folder() -> Iterator[Path]:
    """The folder of a server that was made before, for this test alone: it may be spoilt."""
    with reachable_folder(quick_place()) as parent:
        folder = copy_made_server(parent / "server")
        yield folder
        end_all(folder)


@pytest.fixture(scope="session")
def made_folder() -> Iterator[Path]:
    """The folder of a server that was made before."""
    with reachable_folder(quick_place()) as parent:
        yield copy_made_server(parent / "server")


@pytest.fixture
def folder(made_folder: Path) -> Iterator[Path]:
    """The folder of a server that is not running; whatever runs in it is ended after the test."""
    end_all(made_folder)
    yield made_folder
    end_all(made_folder)


@pytest.fixture
def join(folder: Path) -> Iterator[Callable[[], User]]:
    """Start processes that use the server."""
    users: list[User] = []

    def start(where: Path = folder, **options: Any) -> User:
        users.append(User(where, **options))
        return users[-1]

    yield start
    for user in users:
        user.kill()


@pytest.fixture
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A running server, used by the test itself."""
    with EmbeddedPostgres(folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
        yield server
