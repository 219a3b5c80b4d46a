"""Asks the database for a sign of life, for those who ask whether we are ready."""

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

SECONDS_BETWEEN = 3.0
SECONDS_BETWEEN_IN_TROUBLE = 0.5
SECONDS_FOR_AN_ANSWER = 3.0
_OPTIONS: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "prepare_threshold": None}
_QUESTION = load_statement("ferryman.database", "backend_pid").text(SchemaName("public"), Style.NUMBERED)


async def watch_database(client: Client, tell: Callable[[bool], None]) -> NoReturn:
    """Tell again and again whether the database of a worker's client answers."""
    line = _Line(client)
    try:
        while True:
            does_answer = await line.answers()
            tell(does_answer)
            await asyncio.sleep(SECONDS_BETWEEN if does_answer else SECONDS_BETWEEN_IN_TROUBLE)
    finally:
        await line.close()


class _Line:
    """A connection for this question alone. The worker's own may all wait for locks while the database answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._login: asyncio.Task[OwnAsyncConnection] | None = None

    async def answers(self) -> bool:
        """True if the database answers in time. A connection that failed is not used again."""
        if self._login is None:
            opening = connect(OwnAsyncConnection, self._client.address.conninfo, **_OPTIONS)
            self._login = asyncio.create_task(opening, name="login")
        await asyncio.wait({self._login}, timeout=SECONDS_FOR_AN_ANSWER)
        if not self._login.done():
            return False  # it may take longer, as when the first of several hosts is gone
        if _was_well(self._login):
            does_answer = await self._asked(self._login.result())
        else:
            does_answer = await self._answers_the_worker()
        if not does_answer or not _was_well(self._login):
            await self.close()
        return does_answer

    async def _answers_the_worker(self) -> bool:
        """True if the worker's own connections work. A server that has no room for one more serves those it has."""
        try:
            async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                await self._client.ping()
        except (FerrymanError, TimeoutError):
            return False
        return True

    async def _asked(self, connection: OwnAsyncConnection) -> bool:
        asking = asyncio.create_task(connection.fetch(_QUESTION), name="question")
        try:
            await asyncio.wait({asking}, timeout=SECONDS_FOR_AN_ANSWER)
        finally:
            if not asking.done():
                # Not cancelled: psycopg would ask the server to cancel the question, and wait for ten seconds.
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
                    line.shutdown(socket.SHUT_RDWR)
                await asyncio.wait({asking})
        return _was_well(asking)

    async def close(self) -> None:
        """Close the connection without a word, which a server that is silent would not hear."""
        login, self._login = self._login, None
        if login is None:
            return
        login.cancel()
        await asyncio.wait({login})
        if _was_well(login):
            login.result().pgconn.finish()


def _was_well(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
