"""Listens for new jobs, and for migrations, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.connecting import connect
from ferryman.database.pools import new_patience
from ferryman.database.retrying import Retrying
from ferryman.database.statements import Style, load_statement
from ferryman.queries.claim import LISTEN, prove_listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGconn

    from ferryman.database.addresses import Address
    from ferryman.database.identifiers import SchemaName

logger = logging.getLogger("ferryman.worker")

CHANNELS = ("jobs:insert", "worker:migrate")
SECONDS_BETWEEN_PROOFS = 60.0
"""The system watches over the connection; only a question shows that the server has forgotten what we listen to."""
SECONDS_FOR_AN_ANSWER = 10.0


class BehindPoolerError(Exception):
    """The session belongs to a pooler: it would still listen when another client gets it."""


class Listener:
    """Acts on each notification, and reconnects for as long as it runs. Never inside a transaction.

    Behind a pooler it does not listen. It tries again once the worker's pool has made a connection without a pooler.

    is_behind_pooler: whether the newest connection of the worker's pool leads to a pooler
    poll_seconds: how often the worker polls for jobs, for the log
    """

    def __init__(
        self,
        address: Address,
        schema: SchemaName,
        *,
        is_behind_pooler: Callable[[], bool],
        poll_seconds: float,
    ) -> None:
        self._address = address
        self._is_behind_pooler = is_behind_pooler
        self._poll_seconds = poll_seconds
        self._has_told = False
        self._backend_pid = load_statement("ferryman.database", "backend_pid").text(schema, Style.NUMBERED)
        self._acts: dict[str, Callable[[], None]] = {}
        self._listen = LISTEN.statement.text(schema, Style.NUMBERED)
        self._prove = prove_listening.statement.text(schema, Style.NUMBERED)
        self._retrying = Retrying("listening for new jobs", logger=logger)
        self._patience = new_patience()
        self.is_listening = False
        """True while notifications arrive, as far as the worker knows."""

    def on(self, channel: str, act: Callable[[], None]) -> None:
        """Call `act` at each notification of the channel, and each time that one may have been missed."""
        self._acts[channel] = act

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen_once()
            except BehindPoolerError:
                self._tell_once()
                await asyncio.sleep(SECONDS_BETWEEN_PROOFS)
            except (psycopg.Error, OSError, TimeoutError) as error:
                await asyncio.sleep(self._retrying.pause_after(error))

    def _tell_once(self) -> None:
        if not self._has_told:
            self._has_told = True
            logger.info(
                "the worker connects through a connection pooler, where it cannot listen for new jobs; it looks for "
                "them every %g s instead. For jobs to start at once, give the worker an address without the pooler",
                self._poll_seconds,
                extra={"event": "not_listening"},
            )

    def _ring(self, channel: str) -> None:
        act = self._acts.get(channel)
        if act is not None:
            act()

    async def _connect(self) -> psycopg.AsyncConnection:
        limit = self._patience.seconds
        try:
            return await connect(
                psycopg.AsyncConnection, self._address.conninfo, autocommit=True, connect_timeout=limit
            )
        except psycopg.Error as error:
            self._patience.failed(error)
            raise

    async def _listen_once(self) -> None:
        if self._is_behind_pooler():
            raise BehindPoolerError
        connection = await self._connect()
        connection.add_notify_handler(lambda notice: self._ring(notice.channel))  # what comes before an answer
        try:
            async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                row = await (await connection.execute(self._backend_pid)).fetchone()
                if row != (connection.info.backend_pid,):
                    raise BehindPoolerError
                await connection.execute(self._listen)
            self._has_told = False
            self._retrying.is_over()
            self.is_listening = True
            # Notifications before this moment were missed.
            for channel in CHANNELS:
                self._ring(channel)
            while True:
                await self._hear(connection.pgconn)
                await self._prove_alive(connection)
        finally:
            self.is_listening = False
            with contextlib.suppress(psycopg.Error):
                await connection.close()

    async def _hear(self, pgconn: PGconn) -> None:
        """Act on the notifications of the next minute. Reads the socket itself: the driver is slower than a claim."""
        loop, socket = asyncio.get_running_loop(), pgconn.socket
        broken: asyncio.Future[None] = loop.create_future()

        def read() -> None:
            try:
                pgconn.consume_input()
                while (notice := pgconn.notifies()) is not None:
                    self._ring(notice.relname.decode())
            except psycopg.Error as error:
                loop.remove_reader(socket)
                broken.set_exception(error)

        loop.add_reader(socket, read)
        try:
            read()  # what came with the last answer
            async with asyncio.timeout(SECONDS_BETWEEN_PROOFS):
                await broken
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(socket)

    async def _prove_alive(self, connection: psycopg.AsyncConnection[Any]) -> None:
        async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
            row = await (await connection.execute(self._prove)).fetchone()
        if row != (True,):
            raise psycopg.OperationalError("the server has forgotten that we listen")
