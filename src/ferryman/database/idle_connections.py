"""The idle connections of a pool: which one is lent next, and which are closed."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Generic, TypeVar

import psycopg

from ferryman.database.connections import OwnAsyncConnection, OwnConnection

C = TypeVar("C", OwnAsyncConnection, OwnConnection)

SECONDS_IDLE = 10.0
"""An unused connection is closed after this time, unless it is the last: hundreds of idle workers add up."""
SECONDS_OF_LIFE = 3600.0
"""Older connections are closed: the server's memory for a connection grows with use."""
SECONDS_UNASKED = 60.0
"""A connection that was idle for longer is tested before use: firewalls forget silent connections."""


class IdleConnections(Generic[C]):
    """Connections that are not in use. The one used last is lent first, so that the others expire."""

    def __init__(self) -> None:
        self._connections: list[tuple[float, C]] = []
        self._may_write = False

    def meet(self, connection: C) -> C:
        """Take note of a new connection. If it may write, drop read-only ones later: the server takes writes now."""
        self._may_write = self._may_write or not connection.is_read_only
        return connection

    def take(self) -> tuple[C, bool] | None:
        """Take a connection that seems to work, and True if it must be tested first. Broken ones are dropped."""
        while self._connections:
            try:
                since, connection = self._connections.pop()
            except IndexError:  # another thread was faster
                return None
            if not self._is_outdated(connection) and not _was_cut(connection):
                return connection, time.monotonic() - since >= SECONDS_UNASKED
            connection.pgconn.finish()
        return None

    def put(self, connection: C) -> list[C]:
        """Keep a connection, and return those that the caller must close."""
        now = time.monotonic()
        is_fit = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if not is_fit or now - connection.opened_at > SECONDS_OF_LIFE or self._is_outdated(connection):
            return [connection]
        self._connections.append((now, connection))
        return self._expired(now)

    def empty(self) -> list[C]:
        """Remove and return every connection."""
        connections, self._connections = self._connections, []
        return [connection for _, connection in connections]

    def cut(self) -> None:
        """Drop every connection without notifying the server: another process uses the same sockets."""
        for connection in self.empty():
            nothing = os.open(os.devnull, os.O_RDWR)
            with suppress(psycopg.Error):  # it has no socket any more
                os.dup2(nothing, connection.pgconn.socket, inheritable=False)
            os.close(nothing)
            connection.pgconn.finish()

    def _is_outdated(self, connection: C) -> bool:
        return self._may_write and connection.is_read_only

    def _expired(self, now: float) -> list[C]:
        if self._connections[0][0] > now - SECONDS_IDLE or len(self._connections) == 1:
            return []
        return [self._connections.pop(0)[1]]


def _was_cut(connection: OwnAsyncConnection | OwnConnection) -> bool:
    """True if the server has closed this idle connection. Needs no round trip.

    A connection that never listens receives nothing while idle, except the end.
    """
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
