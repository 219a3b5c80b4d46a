import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ferryman.embedded import EmbeddedPostgres
from tests.support.embedded_processes import User, end_all


@contextmanager
def passable_folder() -> Iterator[Path]:
    """Make a folder that every account may pass through; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp(prefix="ferryman-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder."""
    with passable_folder() as folder:
        yield folder


@pytest.fixture
def fresh_folder(open_folder: Path) -> Iterator[Path]:
    """The folder of a server that was never started; whatever runs in it is ended after the test."""
    folder = open_folder / "server"
    yield folder
    end_all(folder)


@pytest.fixture(scope="session")
def made_folder() -> Iterator[Path]:
    """The folder of a server that was made before."""
    with passable_folder() as folder:
        with EmbeddedPostgres(folder / "server", linger=timedelta(0)):
            pass
        yield folder / "server"


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
