"""What stands between worker and PostgreSQL: a network as bad as a test wants, and a real PgBouncer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from types import TracebackType

NO_LINGER = struct.pack("ii", 1, 0)
"""Closing such a socket sends RST."""
READY_FOR_QUERY = b"Z\0\0\0\5I"
"""How the server ends its side of a login."""
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
SECONDS_TO_START = 20.0
POOL_SIZE = 3
"""How many server connections PgBouncer has."""


class Fate(Enum):
    """What becomes of a connection."""

    WORK = auto()
    REFUSED = auto()
    """Hung up on at once, as by a server that is not there."""
    SWALLOWED = auto()
    """Accepted, and never answered."""
    SWALLOWED_AFTER_LOGIN = auto()
    """Answered until the login is through, and never again."""


class Proxy:
    """Passes bytes between clients and a server that listens on TCP."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._links: set[_Link] = set()
        self.passes_replies = True
        self.delay_seconds = 0.0
        self.cuts_at: bytes | None = None
        """The first reply that contains this is lost with its connection."""
        self.new_connections = Fate.WORK
        self.refused = 0
        """How many connections were not let through."""

    @property
    def dsn(self) -> str:
        """The server's address, through this proxy."""
        return make_conninfo(self._dsn, host="127.0.0.1", port=self._server.sockets[0].getsockname()[1])

    def lead_to(self, dsn: str) -> None:
        """Lead new connections to another server."""
        self._dsn = dsn

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.reset()
        tasks = [link.task for link in self._links]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def count(self) -> int:
        """How many connections it carries."""
        return len(self._links)

    def reset(self) -> None:
        """Cut all connections with RST on both sides."""
        for link in self._links:
            link.reset()

    def swallow(self) -> None:
        """Let nothing pass on today's connections any more, for ever; new connections are not affected."""
        for link in self._links:
            link.is_swallowed = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = conninfo_to_dict(self._dsn)
        task = asyncio.current_task()
        assert task is not None
        self.refused += self.new_connections is not Fate.WORK
        if self.new_connections is Fate.REFUSED:
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(str(target["host"]), int(target["port"]))
        except OSError:
            writer.close()
            return
        link = _Link(task, [writer, server_writer], self.new_connections)
        self._links.add(link)
        requests = asyncio.ensure_future(self._pump(link, reader, server_writer, are_replies=False))
        replies = asyncio.ensure_future(self._pump(link, server_reader, writer, are_replies=True))
        try:
            await asyncio.wait([requests, replies], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # by our own end; asyncio's streams take it for a mishap
        finally:
            self._links.discard(link)
            for pump in (requests, replies):
                pump.cancel()
            for end in link.ends:
                end.close()
            await asyncio.gather(requests, replies, return_exceptions=True)

    async def _pump(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_replies: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay_seconds)
                if are_replies and self.cuts_at is not None and self.cuts_at in data:
                    self.cuts_at = None
                    link.reset()
                    return
                if not link.is_swallowed and (self.passes_replies or not are_replies):
                    writer.write(data)
                    await writer.drain()
                if link.fate is Fate.SWALLOWED_AFTER_LOGIN and are_replies and READY_FOR_QUERY in data:
                    link.is_swallowed = True


class _Link:
    def __init__(self, task: asyncio.Task[None], ends: list[asyncio.StreamWriter], fate: Fate) -> None:
        self.task = task
        self.ends = ends
        self.fate = fate
        self.is_swallowed = fate is Fate.SWALLOWED

    def reset(self) -> None:
        for end in self.ends:
            with contextlib.suppress(OSError):  # the other side may have been faster
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            end.transport.abort()


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
            f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {POOL_SIZE}\n"
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
