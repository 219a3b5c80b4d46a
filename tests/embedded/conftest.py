import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ferryman.embedded import EmbeddedPostgres

from .processes import User, end_all


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account may pass through; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp(prefix="ferryman-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(open_folder: Path) -> Iterator[Path]:
    """The folder of a server that does not exist yet; whatever runs in it is ended after the test."""
    folder = open_folder / "server"
    yield folder
    end_all(folder)


@pytest.fixture
def join(folder: Path) -> Iterator[Callable[[], User]]:
    """Start processes that use the server."""
    users: list[User] = []

    def start(**options: object) -> User:
        users.append(User(folder, **options))
        return users[-1]

    yield start
    for user in users:
        user.kill()


@pytest.fixture
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A running server, used by the test itself."""
    with EmbeddedPostgres(folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
        yield server
