"""Reads what a schema contains, from PostgreSQL's catalogue and the two tables of migrations. `status` judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ferryman.database.steps import Call
from ferryman.schema.contract import FUNCTIONS, RELATIONS, schema_statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

LEDGER = "migrations"
EXTENSION_LEDGER = "_ferryman_migrations"
RUST_WORKERS = "_private_workers"
RUST_WORKERS_REVISION = 20
"""The revision at which the Rust system makes its table of workers, and fails if there is one. On a schema that is at
this revision already, its later ones use the table that they find."""
RUST_RETIREMENTS = "_private_job_retirements"
"""The table that newer versions of the Rust system add in revision 22."""
RUST_KEY_REVISION = 19
"""The revision that is breaking if Node wrote it, and not if Rust did: they number differently after 18."""

_READ_STATE = schema_statement("read_state")
_READ_MIGRATIONS = schema_statement("read_migrations")
_READ_EXTENSIONS = schema_statement("read_extensions")
_NAMES = [*RELATIONS, LEDGER, EXTENSION_LEDGER, RUST_WORKERS, RUST_RETIREMENTS]
_LEDGER_COLUMNS = {"id", "ts"}
"""The columns of the oldest ledgers. `breaking` came later."""


class AppliedMigration(msgspec.Struct, frozen=True):
    """One migration of Graphile Worker, from its table of migrations (the ledger)."""

    id: int
    is_breaking: bool | None
    """None in the ledgers of the oldest versions, which did not record it."""
    age_seconds: float


class AppliedExtension(msgspec.Struct, frozen=True):
    """One migration of Ferryman, from its own table of migrations."""

    id: int
    name: str
    made: tuple[str, ...]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a schema contains, by PostgreSQL's catalogue and the two tables of migrations (ledgers)."""

    schema: SchemaName
    server_version: int
    exists: bool
    relations: frozenset[str]
    """The tables, indexes and types that matter to Ferryman, out of all that the schema has."""
    functions: frozenset[str]
    ledger_columns: frozenset[str]
    bodies: int
    migrations: tuple[AppliedMigration, ...] = ()
    extensions: tuple[AppliedExtension, ...] = ()

    @property
    def has_ledger(self) -> bool:
        """True if a table has the name of Graphile's table of migrations, whether it is Graphile's or not."""
        return LEDGER in self.relations

    @property
    def revision(self) -> int | None:
        """The newest revision of Graphile's schema."""
        return max((migration.id for migration in self.migrations), default=None)

    @property
    def highest_breaking(self) -> int | None:
        """The newest breaking revision: older workers cannot use the schema since."""
        return max((migration.id for migration in self.migrations if migration.is_breaking), default=None)

    @property
    def extension_revision(self) -> int | None:
        """The number of Ferryman's newest migration in this schema; None if it has none."""
        return max((extension.id for extension in self.extensions), default=None)

    @property
    def made(self) -> frozenset[str]:
        """The names of all objects that our extensions made here."""
        return frozenset(part for extension in self.extensions for part in extension.made)

    @property
    def is_rust_migrated(self) -> bool:
        """True if the Rust system's own migrations have run here, so that it relies on the objects they made."""
        wrote_its_nineteen = any(
            migration.id == RUST_KEY_REVISION and migration.is_breaking is False for migration in self.migrations
        )
        return wrote_its_nineteen or RUST_RETIREMENTS in self.relations


def read_facts(schema: SchemaName) -> Steps[Facts]:
    """Read the facts about a schema. Locks and writes nothing."""
    ((server, exists, relations, functions, columns, bodies),) = yield Call(
        _READ_STATE, {"name": schema.name, "relations": _NAMES, "functions": list(FUNCTIONS)}
    )
    migrations = yield from _read_migrations(is_readable=set(columns) >= _LEDGER_COLUMNS)
    extensions = yield from _read_extensions(is_readable=EXTENSION_LEDGER in relations)
    return Facts(
        schema=schema,
        server_version=server,
        exists=exists,
        relations=frozenset(relations),
        functions=frozenset(functions),
        ledger_columns=frozenset(columns),
        bodies=bodies,
        migrations=tuple(migrations),
        extensions=tuple(extensions),
    )


def _read_migrations(*, is_readable: bool) -> Steps[Iterable[AppliedMigration]]:
    if not is_readable:
        return ()
    rows = yield Call(_READ_MIGRATIONS)
    return [AppliedMigration(*row) for row in rows]


def _read_extensions(*, is_readable: bool) -> Steps[Iterable[AppliedExtension]]:
    if not is_readable:
        return ()
    rows = yield Call(_READ_EXTENSIONS)
    return [AppliedExtension(number, name, tuple(made)) for number, name, made in rows]
