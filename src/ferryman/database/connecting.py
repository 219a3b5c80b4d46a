"""Opens connections, prepares them for our statements, and explains why that failed."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from ferryman.database.connections import BEGIN_POOLED
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style, load_statement
from ferryman.errors import NotConnectedError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from ferryman.database.addresses import Address
    from ferryman.database.connections import OwnAsyncConnection, OwnConnection

    C = TypeVar("C", bound=AsyncConnection[Any])

_NO_SCHEMA = SchemaName("public")
_DEFAULT_ISOLATION = load_statement(__package__, "default_isolation").text(_NO_SCHEMA, Style.NUMBERED)
_STEADY_PLANS = load_statement(__package__, "steady_plans").text(_NO_SCHEMA, Style.NUMBERED)

ROUND_TRIPS_OF_A_LOGIN = 4
"""One for encryption, one for the user name, two for the password."""


class ConnectPatience:
    """The time limit of a new connection, which grows on a slow network.

    With a fixed limit that a login cannot meet, every try would fail. After a try at the longest limit comes one at the
    shortest: if a silent server has just come back, the caller should not have to wait long to see it.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self.seconds = round(shortest)

    def expect(self, seconds: float) -> None:
        """Allow twice as long as a login is known to take."""
        self.seconds = round(min(self._longest, max(self._shortest, 2 * seconds)))

    def took(self, seconds: float) -> None:
        """Allow less if a login was quick. A slow one changes nothing: it may first have tried a host that is gone."""
        self.seconds = min(self.seconds, round(max(self._shortest, 2 * seconds)))

    def failed(self, error: BaseException) -> None:
        """Allow twice as long the next time if the time was up."""
        if isinstance(error, (psycopg.errors.ConnectionTimeout, TimeoutError)):
            self.expect(0.0 if self.seconds >= self._longest else self.seconds)


async def connect(kind: type[C], conninfo: str, **options: Any) -> C:
    """Open a connection of this kind.

    When the caller is cancelled, the half-open connection stays in the frames that the error remembers. PostgreSQL
    then waits for the password for up to a minute, and cannot drop any database meanwhile. So these frames are cleared.
    """
    try:
        return await kind.connect(conninfo, **options)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise


async def configure_async(connection: OwnAsyncConnection) -> None:
    """Prepare a new async connection for our statements, and find out whether it leads to a pooler."""
    login_pid = connection.info.backend_pid
    [(server_pid, _)] = await connection.fetch(_STEADY_PLANS, [login_pid])
    if server_pid == login_pid:
        return
    _expect_pooler(connection)
    [(isolation,)] = await connection.fetch(_DEFAULT_ISOLATION)
    connection.must_isolate = isolation != "read committed"


def configure(connection: OwnConnection) -> None:
    """Prepare a new blocking connection for our statements, and find out whether it leads to a pooler."""
    login_pid = connection.info.backend_pid
    [(server_pid, _)] = connection.fetch(_STEADY_PLANS, [login_pid])
    if server_pid != login_pid:
        configure_behind_pooler(connection)


def configure_behind_pooler(connection: OwnConnection) -> None:
    """Prepare a connection through a pooler, whose sessions serve other clients next: no setting may stay there."""
    _expect_pooler(connection)
    [(isolation,)] = connection.fetch(_DEFAULT_ISOLATION)
    connection.must_isolate = isolation != "read committed"


def _expect_pooler(connection: OwnAsyncConnection | OwnConnection) -> None:
    connection.is_pooled, connection.prepare_threshold, connection.begin = True, None, BEGIN_POOLED


_WRONG_PASSWORD = ("password authentication failed", "no password supplied", "SASL authentication failed")
"""The words of servers, poolers and libpq: a failed login carries no code."""
_LIBPQ_S_ADVICE = re.compile(r"\n\tIs the server running [^\n]*\?")
"""The question that libpq adds to each failure. Our own advice says it once."""


def unreachable(address: Address, error: Exception) -> NotConnectedError:
    """Return the error for a login that failed: the server's words, and what to do."""
    # The cause is quoted, not chained: libpq's exceptions may carry the whole connection string.
    why = " ".join(_LIBPQ_S_ADVICE.sub("", str(error)).split()).rstrip(".") or "it did not answer in time"
    if any(words in why for words in _WRONG_PASSWORD):
        what_to_do = "The server answered, so its address is right: check the user name and the password"
    elif "FATAL:" in why:
        what_to_do = "The server answered, so its address is right: fix what its message names, then try again"
    else:
        what_to_do = (
            "Check that PostgreSQL runs there and that the address is right, "
            "or start a local one with: ferryman postgres"
        )
    return NotConnectedError(f"could not connect to {address}: {why}. {what_to_do}")
