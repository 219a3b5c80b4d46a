"""Asks the database at intervals whether it answers, for `/readyz`."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any, NoReturn

from ferryman.database.connecting import connect
from ferryman.database.connections import OwnAsyncConnection
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style, load_statement
from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import Client

INTERVAL_SECONDS = 3.0
RETRY_SECONDS = 0.5
ANSWER_SECONDS = 3.0
"""The time in which the database has to answer."""
_OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "prepare_threshold": None}
_QUESTION = load_statement("ferryman.database", "backend_pid").text(SchemaName("public"), Style.NUMBERED)


async def probe_database(client: Client, on_result: Callable[[bool], None]) -> NoReturn:
    """Call `on_result` again and again with True if the database of a worker's client answers."""
    connection = _ProbeConnection(client)
    try:
        while True:
            does_answer = await connection.answers()
            on_result(does_answer)
            await asyncio.sleep(INTERVAL_SECONDS if does_answer else RETRY_SECONDS)
    finally:
        await connection.close()


class _ProbeConnection:
    """A connection that only asks whether the database answers.

    All of the worker's own connections may wait for locks while the database answers.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._login: asyncio.Task[OwnAsyncConnection] | None = None

    async def answers(self) -> bool:
        """True if the database answers in time. A connection that failed is not used again."""
        if self._login is None:
            opening = connect(OwnAsyncConnection, self._client.address.conninfo, **_OPTIONS)
            self._login = asyncio.create_task(opening, name="login")
        await asyncio.wait({self._login}, timeout=ANSWER_SECONDS)
        if not self._login.done():
            return False  # it may take longer, as when the first of several hosts is down
        if _succeeded(self._login):
            does_answer = await self._ask(self._login.result())
        else:
            does_answer = await self._answers_the_worker()
        if not does_answer or not _succeeded(self._login):
            await self.close()
        return does_answer

    async def _answers_the_worker(self) -> bool:
        """True if the worker's own connections work. A server without room for another connection still serves them."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.ping()
        except (FerrymanError, TimeoutError):
            return False
        return True

    async def _ask(self, connection: OwnAsyncConnection) -> bool:
        asking = asyncio.create_task(connection.fetch(_QUESTION), name="question")
        try:
            await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        finally:
            if not asking.done():
                # Not cancelled: psycopg would ask the server to cancel the query, and wait for ten seconds.
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
                    line.shutdown(socket.SHUT_RDWR)
                await asyncio.wait({asking})
        return _succeeded(asking)

    async def close(self) -> None:
        """Close the connection without notifying the server, which may not answer."""
        login, self._login = self._login, None
        if login is None:
            return
        login.cancel()
        await asyncio.wait({login})
        if _succeeded(login):
            login.result().pgconn.finish()


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
