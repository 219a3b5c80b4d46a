"""What the migrations of graphile_worker, the Rust crate, do to a schema; `make interop-rust` runs the real ones."""

from __future__ import annotations

from pathlib import Path

import psycopg

from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style, load_statement
from ferryman.schema.extensions import SHARED

NEWEST = 22
_BODIES = Path(__file__).with_name("rust_bodies.sql")


def migrate_as_rust(dsn: str, to: int = NEWEST) -> None:
    """Apply its revisions one by one, each in a transaction of its own, as far as `to`. None is breaking.

    19 and 21 replace functions; 20 makes the table of workers and its functions, and fails where they are; 22 marks
    jobs whose keys are taken over.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        [revision] = connection.execute("select max(id) from graphile_worker.migrations").fetchone()
        for number in range(revision + 1, to + 1):
            with connection.transaction():
                connection.execute("insert into graphile_worker.migrations (id) values (%s)", [number])
                if number == 20:
                    for part in SHARED.parts:
                        statement = load_statement("ferryman.schema", f"sql/extensions/{part}")
                        connection.execute(statement.text(SchemaName("graphile_worker"), Style.NUMBERED))
                if number == 22:
                    connection.execute(_BODIES.read_text(encoding="utf-8"))
