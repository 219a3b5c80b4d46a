"""The PostgreSQL server on which all products are measured: private, with the settings of a production server."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "off",
    "jit": "on",
    "max_connections": "1000",
    "shared_preload_libraries": "",
}
"""Nothing that trades durability for speed. JIT is on, as it is out of the box. So is autovacuum, which is not named:
what is named here cannot be changed while the server runs."""

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. Programs reach it by TCP, as most do in production."""

    url: str
    postmaster: int

    @property
    def version(self) -> str:
        with psycopg.connect(self.url) as connection:
            return str(connection.info.parameter_status("server_version"))

    def fresh_database(self, name: str) -> str:
        """Drop the database of this name if it exists, create it, and return its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        return self.url.rsplit("/", 1)[0] + "/" + name

    def processor_seconds(self) -> float:
        """Return the processor time of all server processes, ended ones too. 0 where there is no /proc."""
        try:
            return (
                _used(self.postmaster, with_ended=True) + sum(map(_used, _children(self.postmaster)))
            ) / _CLOCK_TICKS
        except OSError:
            return 0.0


@contextmanager
def private_server() -> Iterator[Server]:
    """Start a private server, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="ferryman-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        with EmbeddedPostgres(folder / "postgres", settings=SETTINGS, linger=timedelta()) as started:
            pid = int((folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
            yield Server(started.tcp_dsn, pid)


def libpq_environment(url: str) -> dict[str, str]:
    """Return an address as libpq's environment variables."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    return {names[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in names}


def process_seconds(pid: int) -> float:
    """Return the processor time of one process so far. 0 where there is no /proc."""
    try:
        return _used(pid) / _CLOCK_TICKS
    except OSError:
        return 0.0


def _used(pid: int, *, with_ended: bool = False) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except (ProcessLookupError, FileNotFoundError):
        return 0
    return sum(int(field) for field in fields[11 : 15 if with_ended else 13])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
