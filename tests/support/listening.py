"""What a session hears on a channel."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_END = "that is all"


@contextmanager
def heard(dsn: str, channel: str) -> Iterator[list[str]]:
    """Payloads that were sent on the channel inside the block; complete when the block has ended."""
    payloads: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
        yield payloads
        # Notifications arrive in the order of their commits, so ours marks the end.
        connection.execute("select pg_notify(%s, %s)", [channel, _END])
        for notification in connection.notifies():
            if notification.payload == _END:
                break
            payloads.append(notification.payload)
