"""A network between worker and PostgreSQL that can be as bad as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from types import TracebackType

NO_LINGER = struct.pack("ii", 1, 0)
"""Closing such a socket sends RST."""


READY_FOR_QUERY = b"Z\0\0\0\5I"
"""How the server ends its side of a login."""


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
