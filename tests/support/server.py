"""One PostgreSQL for all pytest processes of a run, and fresh databases on it, made ahead and dropped behind."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os
import secrets
import shutil
import tempfile
from base64 import b64encode
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, PGconn

from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres
from tests.support.once import once
from tests.support.versions import server_binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "fsync": "off",  # a power cut may cost the data: no test survives one
    "max_connections": "600",
    "autovacuum": "off",  # it comes when it likes; tests that need it run VACUUM themselves
    "track_commit_timestamp": "on",
    "max_wal_size": "4GB",
    "log_line_prefix": "%m [%p] %d ",
}
ENOUGH_MEMORY = 6 * 2**30
FILE_COPY_MAJOR = 15
_MEMORY = Path("/dev/shm")
_numbers = itertools.count(1)


@contextmanager
def reachable_folder(place: Path | None = None) -> Iterator[Path]:
    """A temporary folder that PostgreSQL's account can reach; pytest keeps its own folders to one account."""
    with tempfile.TemporaryDirectory(prefix="ferryman-tests-", ignore_cleanup_errors=True, dir=place) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def quick_place() -> Path | None:
    """Where the files of a server cost least: in memory, if there is plenty of it."""
    has_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > ENOUGH_MEMORY
    return _MEMORY if has_memory else None


def shared_server(folder: Path) -> EmbeddedPostgres:
    """The server of this folder: whoever comes first starts it, the others join, the last one stops it."""
    return EmbeddedPostgres(folder / "postgres", binaries=server_binaries(), settings=SETTINGS, linger=timedelta())


def template_on(server: EmbeddedPostgres) -> str:
    """A database with the schema installed, to be copied: far quicker than installing it for each test."""

    def make() -> str:
        name = "ferryman_template"
        quicken_logins(server.dsn)
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute(_creation(name, "template0"))
        with SyncClient(make_conninfo(server.dsn, dbname=name)) as client:
            client.migrate()
        return name

    return once("template", make)


def quicken_logins(dsn: str) -> None:
    """Let each client hash the password once instead of 4,096 times. That took three quarters of its login.

    PostgreSQL 16 has a setting for it; older ones take what such a setting would store.
    """
    login = conninfo_to_dict(dsn)
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", str(login["password"]).encode(), salt, 1)
    client_key, server_key = (hmac.digest(salted, what, "sha256") for what in (b"Client Key", b"Server Key"))
    keys = (b64encode(key).decode() for key in (salt, hashlib.sha256(client_key).digest(), server_key))
    stored = "SCRAM-SHA-256$1:{}${}:{}".format(*keys)
    with psycopg.connect(dsn, autocommit=True) as admin:
        change = sql.SQL("alter role {} password {}")
        admin.execute(change.format(sql.Identifier(str(login["user"])), sql.Literal(stored)))


class Databases:
    """Fresh databases on one server: the next one is made, and the last one dropped, while a test runs."""

    def __init__(self, server: EmbeddedPostgres, template: str) -> None:
        self._dsn = server.dsn
        self._template = template
        self._making = _Errand(self._dsn)
        self._dropping = _Errand(self._dsn)
        self._next = self._make()

    def take(self) -> str:
        """The DSN of a fresh database with the schema installed; give it back after use."""
        self._making.finish()
        name, self._next = self._next, self._make()
        return make_conninfo(self._dsn, dbname=name)

    def give_back(self, dsn: str) -> None:
        """Let it be dropped, with whoever is still connected."""
        name = str(conninfo_to_dict(dsn)["dbname"])
        self._dropping.begin(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def close(self) -> None:
        """End; databases that are left go with the server."""
        self._making.close()
        self._dropping.close()

    def _make(self) -> str:
        name = new_name()
        self._making.begin(_creation(name, self._template))
        return name


class _Errand:
    """A connection that does one thing at a time, and does not keep us waiting for it."""

    def __init__(self, dsn: str) -> None:
        self._connection = PGconn.connect(dsn.encode())
        assert self._connection.status == ConnStatus.OK, self._connection.error_message

    def begin(self, statement: sql.Composed) -> None:
        """Start, once the last errand is done."""
        self.finish()
        self._connection.send_query(statement.as_bytes())

    def finish(self) -> None:
        """Wait until it is done."""
        while (result := self._connection.get_result()) is not None:
            assert result.status == ExecStatus.COMMAND_OK, result.error_message.decode()

    def close(self) -> None:
        self.finish()
        self._connection.finish()


def new_name() -> str:
    """A name for a database that no other pytest process uses."""
    return f"test_{os.getpid()}_{next(_numbers)}"


def create_database(dsn: str, name: str, template: str = "template0") -> str:
    """Make a database; its DSN."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(_creation(name, template))
    return make_conninfo(dsn, dbname=name)


def _creation(name: str, template: str) -> sql.Composed:
    # Copying files takes a third of the time that PostgreSQL's usual way through the WAL takes. 14 knows no other way.
    how = " strategy file_copy" if server_binaries().major >= FILE_COPY_MAJOR else ""
    copy = sql.SQL("create database {} template {}" + how)
    return copy.format(sql.Identifier(name), sql.Identifier(template))
