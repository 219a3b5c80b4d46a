"""Reads times in the ISO style, on sessions whose own style is another."""

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
    """Make a connection read times in the ISO style, in a session of any style. Call it before the first cursor."""
    if not has_iso_times(connection):
        connection.adapters.register_loader("timestamptz", IsoTimeLoader)


def has_iso_times(connection: AsyncConnection[Any] | Connection[Any]) -> bool:
    """True if the session writes times in the ISO style, as servers and poolers report unasked."""
    return (connection.pgconn.parameter_status(b"DateStyle") or b"").startswith(b"ISO")


class IsoTimeLoader(Loader):
    """Reads a time that PostgreSQL wrote with `DateStyle` ISO. The driver's loader goes by the style of the session."""

    def load(self, data: Buffer) -> datetime:
        """Read a time; `DataError` if a datetime cannot hold it."""
        written = bytes(data).decode()
        try:
            return datetime.fromisoformat(written)
        except ValueError:
            raise DataError(f"no datetime can hold {written}") from None
