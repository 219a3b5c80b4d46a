"""Times of transactions that ask for the ISO style on sessions that have another."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from psycopg import DataError
from psycopg.adapt import Loader

if TYPE_CHECKING:
    from typing import Any

    from psycopg import AsyncConnection, Connection
    from psycopg.abc import Buffer


def read_iso_times(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    """Prepare a connection, before its first cursor is made, for times in the ISO style whatever the session has."""
    if not has_iso_times(connection):
        connection.adapters.register_loader("timestamptz", IsoTimeLoader)


def has_iso_times(connection: AsyncConnection[Any] | Connection[Any]) -> bool:
    """Whether the session writes times in the ISO style; servers and poolers tell unasked."""
    return (connection.pgconn.parameter_status(b"DateStyle") or b"").startswith(b"ISO")


class IsoTimeLoader(Loader):
    """Reads a time as PostgreSQL writes it with `DateStyle` ISO. The driver's own goes by the style of the session."""

    def load(self, data: Buffer) -> datetime:
        """The time, or `DataError` for one that a datetime cannot hold."""
        written = bytes(data).decode()
        try:
            return datetime.fromisoformat(written)
        except ValueError:
            raise DataError(f"no datetime can hold {written}") from None
