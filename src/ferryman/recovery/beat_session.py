"""The connection of a worker's heartbeats: used by nothing else, blocking, and every wait has a limit."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import OperationalError
from psycopg.waiting import Ready

from ferryman.database.addresses import WATCHED
from ferryman.database.connecting import configure_behind_pooler
from ferryman.database.connections import OwnConnection
from ferryman.database.statements import Style
from ferryman.queries.advisory_locks import LARGEST_KEY
from ferryman.queries.beat import hold_session_key, prepare_beat_session

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ferryman.database.addresses import Address
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Call, Row

T = TypeVar("T")

STATEMENT_SECONDS = 5.0
ANSWER_SECONDS = 6.0
"""After this long the answer is not late but lost: something in between swallows what is sent."""
CONNECT_SECONDS = 5
TRIES_FOR_A_KEY = 10
_PATIENCE: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    **WATCHED,
}


class BeatSession:
    """A heartbeat connection, from its opening to its loss.

    `key` is the number of the session lock that it holds. It is None behind a pooler, where no session is the worker's
    own, and for a worker without a `lost_session_grace`.
    """

    def __init__(self, connection: ImpatientConnection, schema: SchemaName) -> None:
        self._connection = connection
        self._schema = schema
        self.key: int | None = None

    @classmethod
    def open(
        cls,
        address: Address,
        schema: SchemaName,
        worker_id: str,
        *,
        holds_lock: bool = True,
        connect_seconds: int = CONNECT_SECONDS,
    ) -> BeatSession:
        """Connect, check whether a pooler is in between, and take a session lock if not (and if `holds_lock`)."""
        connection = ImpatientConnection.connect(
            address.conninfo,
            autocommit=True,
            client_encoding="utf8",
            application_name=f"ferryman beats {worker_id}",
            **{**_PATIENCE, "connect_timeout": connect_seconds},
        )
        session = cls(connection, schema)
        try:
            session._prepare(holds_lock=holds_lock)
        except BaseException:
            session.close()
            raise
        return session

    def fetch(self, call: Call) -> Sequence[Row]:
        """Run a statement and return its rows."""
        text = call.statement.text(self._schema, Style.NUMBERED)
        return self._connection.fetch(text, call.statement.ordered(call.parameters))

    def close(self) -> None:
        """Close the connection, which releases its session lock."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def _prepare(self, *, holds_lock: bool) -> None:
        login_pid = self._connection.info.backend_pid
        [(server_pid, _)] = self.fetch(prepare_beat_session(login_pid, STATEMENT_SECONDS))
        if server_pid != login_pid:
            # A pooler: settings and locks would stay with a server process that serves other clients next.
            configure_behind_pooler(self._connection)
        elif holds_lock:
            self.key = self._hold_key()

    def _hold_key(self) -> int:
        # A new key each time: the server may not have noticed yet that the session with the old one is gone.
        for _ in range(TRIES_FOR_A_KEY):
            key = _new_key()
            [(is_ours,)] = self.fetch(hold_session_key(key))
            if is_ours:
                return key
        raise OperationalError(f"{TRIES_FOR_A_KEY} session locks in a row were held by other sessions")


class ImpatientConnection(OwnConnection):
    """A connection that gives up waiting for an answer. The server's own limit does not help if the network is gone."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Like `Connection.wait`, but with a limit."""
        return super().wait(_until_silent(gen), *args, **options)


def _new_key() -> int:
    return 1 + int.from_bytes(os.urandom(8)) % LARGEST_KEY


def _until_silent(conversation: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Wrap psycopg's exchange with the server, so that it fails if the server is silent for too long.

    The limit holds for each round trip; a statement that is prepared takes two.
    """
    try:
        wish = next(conversation)
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            readiness = yield wish
            if readiness & Ready.R:
                deadline = time.monotonic() + ANSWER_SECONDS
            elif not readiness and time.monotonic() > deadline:
                raise OperationalError(f"the database has not answered for {ANSWER_SECONDS:g} s")
            wish = conversation.send(readiness)
    except StopIteration as end:
        result: T = end.value
        return result
