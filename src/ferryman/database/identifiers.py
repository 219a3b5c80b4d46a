"""The name of a schema, checked and quoted once."""

from __future__ import annotations

import msgspec

from ferryman.errors import ConfigurationError

MAX_BYTES = 63
"""PostgreSQL truncates longer names silently, so that two schemas would become one."""


class SchemaName(msgspec.Struct, frozen=True):
    """A schema name that is safe to use; `str(schema)` is the quoted form for SQL."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError("the schema name is empty. Give one such as graphile_worker, or leave it out.")
        if "\0" in self.name:
            raise ConfigurationError(
                "the schema name contains a NUL character, which PostgreSQL cannot store. Choose another name."
            )
        if self.name.startswith("pg_"):
            raise ConfigurationError(
                f"the schema name {self.name!r} starts with 'pg_', which PostgreSQL keeps for itself. Choose another "
                f"name."
            )
        if self.size > MAX_BYTES:
            raise ConfigurationError(
                f"the schema name has {self.size} bytes, and PostgreSQL allows {MAX_BYTES}: {self.name!r}. Choose a "
                f"shorter name."
            )

    @property
    def size(self) -> int:
        """The length in bytes, as PostgreSQL counts it."""
        try:
            return len(self.name.encode())
        except UnicodeEncodeError:
            raise ConfigurationError(
                "the schema name contains half of a surrogate pair, which is not valid text. Choose another name."
            ) from None

    def __str__(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'
