"""Opens connections. A login that is cancelled leaves nothing behind."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    C = TypeVar("C", bound=AsyncConnection[Any])

ROUND_TRIPS_OF_A_LOGIN = 4
"""Whether to encrypt, who we are, and two for the password."""


class ConnectPatience:
    """How long a new connection may take: longer on a slow network.

    A limit that a login cannot meet would let every try fail, for ever. After a try at the longest limit comes one at
    the shortest: a server that swallows everything must not hold up for long whoever tries just before it is back.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self.seconds = round(shortest)

    def expect(self, seconds: float) -> None:
        """Allow twice as long as a login is known to take."""
        self.seconds = round(min(self._longest, max(self._shortest, 2 * seconds)))

    def took(self, seconds: float) -> None:
        """Allow less if a login was quick. A slow one may have tried a host before that is gone, so it says nothing."""
        self.seconds = min(self.seconds, round(max(self._shortest, 2 * seconds)))

    def failed(self, error: BaseException) -> None:
        """Allow twice as long the next time if the time was up."""
        if isinstance(error, (psycopg.errors.ConnectionTimeout, TimeoutError)):
            self.expect(0.0 if self.seconds >= self._longest else self.seconds)


async def connect(kind: type[C], conninfo: str, **options: Any) -> C:
    """Open a connection of this kind.

    When the caller is cancelled, the half-open connection lives on in the frames that the error remembers. PostgreSQL
    then waits for the password for up to a minute, and cannot drop any database meanwhile. So these frames are cleared.
    """
    try:
        return await kind.connect(conninfo, **options)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
