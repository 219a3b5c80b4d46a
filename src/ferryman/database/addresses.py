"""The address of the database, and its printed form without the password."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman.discreet import Discreet
from ferryman.errors import ConfigurationError, NoDatabaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

EMBEDDED_PREFIX = "embedded:"
LIBPQ_VARIABLES = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER")
START_A_LOCAL_ONE = "ferryman postgres"

WATCHED: dict[str, int] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""TCP settings of our connections, unless the address has its own. A dead connection is given up after about 11 s if it
is idle, and after 10 s if something was sent."""

_STRAY_CHARACTER = re.compile(r"^postgres[^:]*://[^?]*[/@][^?]*@")
"""A slash or an at sign in the password: libpq would take the rest of it for the host, and print it."""
_DIALECT = re.compile(r"^(?:postgres|postgresql)(?:\+\w+)?://")


class Address(Discreet, frozen=True):
    """A libpq connection string. Its printed form never shows the password."""

    conninfo: str

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        parts = conninfo_to_dict(self.conninfo)
        host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "local socket"
        port = parts.get("port") or os.environ.get("PGPORT") or "5432"
        database = parts.get("dbname") or os.environ.get("PGDATABASE") or "the default database"
        return f"{database} at {host}:{port}"


def find_address(database_url: str | None, environ: Mapping[str, str] | None = None) -> Address:
    """Return the database's address: `database_url`, or else libpq's variables; `NoDatabaseError` if none is set."""
    if database_url:
        return parse_address(database_url)
    environ = os.environ if environ is None else environ
    if any(environ.get(variable) for variable in LIBPQ_VARIABLES):
        return Address(_completed(""))
    raise NoDatabaseError(
        "no database is configured. Looked at the database_url argument (--database-url), DATABASE_URL, "
        "database_url in [tool.ferryman] of pyproject.toml, and PGHOST, PGDATABASE, PGSERVICE; all are unset. "
        f"For a local PostgreSQL without installing anything, run: {START_A_LOCAL_ONE}"
    )


def is_embedded(database_url: str | None) -> bool:
    """True if the URL asks for the private PostgreSQL."""
    return bool(database_url) and str(database_url).startswith(EMBEDDED_PREFIX)


def parse_address(database_url: str) -> Address:
    """Check a connection string or URL. `postgres://` and SQLAlchemy's `postgresql+driver://` work too."""
    if _STRAY_CHARACTER.search(database_url):
        raise ConfigurationError(
            "the user name or the password in the database URL has an @ or a / in it, which end the password there. "
            "Write %40 for @ and %2F for /. The URL is not shown here because it holds a password."
        )
    try:
        return Address(_completed(_DIALECT.sub("postgresql://", database_url)))
    except ProgrammingError:
        # libpq's own message quotes the text that it could not read, and with it, maybe, the password.
        raise ConfigurationError(
            "the database URL could not be understood. It should look like "
            "postgresql://user:<password>@host:5432/database, with special characters in the password "
            "percent-encoded (%40 for @). It is not shown here because it may hold a password."
        ) from None


def _completed(conninfo: str) -> str:
    parts = conninfo_to_dict(conninfo)
    ours: dict[str, Any] = {name: value for name, value in WATCHED.items() if name not in parts}
    if "application_name" not in parts and "PGAPPNAME" not in os.environ:
        ours["application_name"] = "ferryman"
    return make_conninfo(conninfo, **ours)
