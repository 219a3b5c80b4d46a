"""Opens connections. A login that is cancelled leaves nothing behind."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    C = TypeVar("C", bound=AsyncConnection[Any])


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
