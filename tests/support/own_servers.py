"""Servers of a test's own, copied from a folder that is made once per run: far quicker than initdb for each test."""

from __future__ import annotations

import json
import random
import secrets
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.paths import Place, ServerFiles
from tests.support import once
from tests.support.embedded_processes import is_quiet
from tests.support.server import quick_place, quicken_logins, reachable_folder
from tests.support.versions import server_binaries
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.embedded import ServerBinaries

SETTINGS = {"fsync": "off", "autovacuum": "off"}
HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, USUAL_LOWEST_HANDED_OUT = 10_000, 32_768


@contextmanager
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server of the run's version with the schema installed, for one test. It may be killed, and comes back."""
    binaries = server_binaries()
    with reachable_folder(quick_place()) as folder:
        made = once.once("own server", lambda: _make(once.folder / "own", binaries, has_schema=True))
        _copy(made, folder / "postgres")
        with EmbeddedPostgres(folder / "postgres", binaries=binaries, settings=SETTINGS, linger=timedelta()) as started:
            yield started


def copy_made_server(to: Path) -> Path:
    """Make the folder of a server that has been started before, and stopped; PostgreSQL's account must reach it.

    Its version is the one that Ferryman finds by itself, whatever the run's: programs of tests start it by its folder.
    """
    _copy(once.once("made server", lambda: _make(once.folder / "made")), to)
    return to


def _copy(made: str, to: Path) -> None:
    subprocess.run(["cp", "--archive", made, to], check=True)
    place = Place(quiet_port(), f"/tmp/ferryman-{secrets.token_hex(4)}")
    ServerFiles(to).place.write_text(json.dumps(asdict(place)))


def _make(folder: Path, binaries: ServerBinaries | None = None, *, has_schema: bool = False) -> str:
    layout = ServerFiles(folder)
    with EmbeddedPostgres(folder, binaries=binaries, linger=timedelta(0), settings=SETTINGS) as server:
        if has_schema:
            quicken_logins(server.dsn)
            with SyncClient(server.dsn) as client:
                client.migrate()
    until_blocking(lambda: is_quiet(folder), "the made server has stopped")
    layout.log.unlink()
    return str(folder)


def quiet_port() -> int:
    """A free port that nobody is given who asks for any, so that a server finds it free again after a restart."""
    handed_out = int(HANDED_OUT.read_text().split()[0]) if HANDED_OUT.exists() else USUAL_LOWEST_HANDED_OUT
    while True:
        port = random.randrange(LOWEST, max(handed_out, LOWEST + 1))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def postmaster(server: EmbeddedPostgres) -> int | None:
    """The process id of the server, if it takes connections."""
    try:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("select")
        return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    except (psycopg.OperationalError, OSError, IndexError):  # its file may be empty while it starts
        return None
