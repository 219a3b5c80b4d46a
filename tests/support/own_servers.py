"""Servers that a test may kill, from a ready-made data folder: initdb and the schema are made once for all."""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

SETTINGS = {"fsync": "off"}
NEEDED = ("data", "password", "leases.lock")


@contextmanager
def own_server(folder: Path, factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server with the schema installed, in a folder that is to be made and that PostgreSQL's account can reach."""
    made = _made_folder(folder, factory)
    folder.mkdir(mode=0o711)
    subprocess.run(["cp", "-a", *(made / name for name in NEEDED), folder], check=True)
    with EmbeddedPostgres(folder, settings=SETTINGS, linger=timedelta()) as started:
        yield started


def _made_folder(folder: Path, factory: pytest.TempPathFactory) -> Path:
    """The folder to copy. Whoever needs it first makes it, for all processes of the run."""
    base = factory.getbasetemp()
    shelf = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made = shelf / "made server"
    with (shelf / "made server.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not made.exists():
            making = folder.with_name(f"{folder.name}-making")
            with (
                EmbeddedPostgres(making, settings=SETTINGS, linger=timedelta()) as server,
                SyncClient(server.dsn) as client,
            ):
                client.migrate()
            subprocess.run(["cp", "-a", making, shelf / "half made"], check=True)
            (shelf / "half made").rename(made)
    return made


def postmaster(server: EmbeddedPostgres) -> int | None:
    """The process id of the server, if it takes connections."""
    try:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("select")
        return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    except (psycopg.OperationalError, OSError, IndexError):  # its file may be empty while it starts
        return None
