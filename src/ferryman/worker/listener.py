"""Hears about new jobs, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.pools import CONNECT_TIMEOUT_SECONDS
from ferryman.database.statements import Style, load_statement
from ferryman.worker.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.addresses import Address
    from ferryman.database.identifiers import SchemaName

CHANNELS = ("jobs:insert", "worker:migrate")
SECONDS_BETWEEN_PROOFS = 30.0
"""A connection that a firewall has dropped stays silent for ever; only a question shows it."""
SECONDS_FOR_AN_ANSWER = 10.0


class Listener:
    """Rings for each announcement, and reconnects for as long as it runs. Never inside a transaction."""

    def __init__(self, address: Address, schema: SchemaName, ring: Callable[[str], None]) -> None:
        self._address = address
        self._ring = ring
        self._listen = load_statement("ferryman.queries", "listen").text(schema, Style.NUMBERED)
        self._prove = load_statement("ferryman.queries", "prove_listening").text(schema, Style.NUMBERED)
        self._trouble = Trouble("listening for new jobs")
        self.is_listening = False
        """Whether announcements come through, as far as one can tell."""

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, OSError, TimeoutError) as error:
                await asyncio.sleep(self._trouble.pause_after(error))

    async def _listen_once(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._address.conninfo, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS
        )
        try:
            async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                await connection.execute(self._listen)
            self._trouble.is_over()
            self.is_listening = True
            # Whatever was announced while nobody listened was missed.
            for channel in CHANNELS:
                self._ring(channel)
            while True:
                async for notice in connection.notifies(timeout=SECONDS_BETWEEN_PROOFS):
                    self._ring(notice.channel)
                await self._prove_alive(connection)
        finally:
            self.is_listening = False
            with contextlib.suppress(psycopg.Error):
                await connection.close()

    async def _prove_alive(self, connection: psycopg.AsyncConnection[Any]) -> None:
        async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
            row = await (await connection.execute(self._prove)).fetchone()
        if row != (True,):
            raise psycopg.OperationalError("the server has forgotten that we listen")
