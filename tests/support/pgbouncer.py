"""A real PgBouncer between a worker and PostgreSQL."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from types import TracebackType

PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
SECONDS_TO_START = 20.0


class PortTakenError(AssertionError):
    """Somebody else was faster, most likely."""


class PgBouncer:
    """Lends server connections for the time of a transaction. `folder` must be within reach of everybody."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder
        self._port = _free_port()

    @property
    def dsn(self) -> str:
        """The database, through the pooler."""
        return f"postgresql://anybody@127.0.0.1:{self._port}/pooled"

    def __enter__(self) -> Self:
        try:
            self.start()
        except PortTakenError:
            self._port = _free_port()
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        config = self._folder / "pgbouncer.ini"
        config.write_text(self._config())
        config.chmod(0o644)
        account = ["-u", "nobody"] if os.getuid() == 0 else []
        self._process = subprocess.Popen([find_pgbouncer(), "-q", *account, str(config)])
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """At once, with all its connections."""
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None:
                raise PortTakenError("PgBouncer did not start; see its output")
            assert time.monotonic() < deadline, "PgBouncer does not answer"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _config(self) -> str:
        server = conninfo_to_dict(self._dsn)
        kept = {name: str(server[name]) for name in ("host", "port", "dbname", "user", "password") if server.get(name)}
        return (
            f"[databases]\npooled = {make_conninfo(**kept)}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self._port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n"
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def find_pgbouncer() -> str:
    """Where the program is. It is installed if that can be done; without it these tests fail, they are not skipped."""
    found = shutil.which("pgbouncer", path=PLACES)
    if found is None and os.getuid() == 0 and shutil.which("apt-get"):
        _install()
        found = shutil.which("pgbouncer", path=PLACES)
    if found is None:
        pytest.fail("these tests need PgBouncer, which could not be found: install the package 'pgbouncer'")
    return found


def _install() -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with (Path(tempfile.gettempdir()) / "ferryman-tests-apt.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # tests run in several processes, and apt in one
        subprocess.run(["apt-get", "update", "-qq"], env=environ, check=False)
        subprocess.run(["apt-get", "install", "-qqy", "--no-install-recommends", "pgbouncer"], env=environ, check=False)
