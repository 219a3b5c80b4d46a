"""One change of a schema at a time, among ourselves and beside the migrators of Node and Rust."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from ferryman.database.failures import message_of, sqlstate_of
from ferryman.database.steps import Call, Rollback, Transaction, Wait
from ferryman.errors import ConfigurationError, DatabaseError, SchemaError
from ferryman.schema.contract import schema_statement
from ferryman.schema.facts import Facts, read_facts
from ferryman.schema.refusals import MigrationUnderWayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

R = TypeVar("R")

PATIENCE_SECONDS = 30.0
"""How long we wait for somebody else's install to finish: shorter than a deployment waits."""
MOST_COLLISIONS = 10
"""Each one means that another migrator was quicker, and the next look shows what it did."""
MOST_TRIES_OF_A_TABLE = 10
"""How often a table that is in use is asked for. While we wait for it, all others wait behind us."""

_LOCK = schema_statement("lock")
_FORBIDDEN = "42501"
_IN_USE = "55P03"
"""A table that must be locked is in use for longer than we may hold up others by waiting for it."""
_COLLISIONS = {
    "23505",  # a ledger row, or a row of the catalogue, that another migrator wrote first
    "42P06",  # schema exists
    "42P07",  # table, index or sequence exists
    "42710",  # type or constraint exists
    "42723",  # function exists
    "40001",  # serialisation failure
    "40P01",  # deadlock
    "XX000",  # "tuple concurrently updated": two replace the same function
}
_BODY_QUOTE = "$ferryman$"
"""Encloses the bodies of our functions, which name the schema; a name that contains it would end them."""


def change(
    schema: SchemaName,
    apply: Callable[[Facts], Steps[R]],
    *,
    tries_of_a_table: int | None = None,
    command: str = "ferryman migrate",
) -> Steps[R]:
    """Run `apply` in one transaction, alone, on facts that stay true. Collisions with other migrators are retried.

    tries_of_a_table: how often a table that is in use is asked for, if not as often as usual
    command: what to run again when it could not be done
    """
    if _BODY_QUOTE in schema.name:
        raise ConfigurationError(f"a schema name must not contain {_BODY_QUOTE!r}: {schema.name!r}")

    collisions, tries, waited = 0, 0, 0.0
    while True:
        # Random, so that two that collided do not collide again.
        pause = random.uniform(0.05, 0.25)  # noqa: S311 - not a secret
        try:
            return (yield from _attempt(schema, apply))
        except MigrationUnderWayError:
            if waited >= PATIENCE_SECONDS:
                raise
        except DatabaseError as error:
            if sqlstate_of(error) == _IN_USE:
                tries += 1
                pause *= 10
            else:
                collisions += 1
            is_over = collisions > MOST_COLLISIONS or tries >= (tries_of_a_table or MOST_TRIES_OF_A_TABLE)
            if is_over or sqlstate_of(error) not in {*_COLLISIONS, _IN_USE}:
                raise _told(error, schema, command) from error.__cause__
        yield Rollback()
        yield Wait(pause)
        waited += pause


def _attempt(schema: SchemaName, apply: Callable[[Facts], Steps[R]]) -> Steps[R]:
    yield Transaction()
    yield Call(_LOCK, {"name": schema.name})
    facts = yield from read_facts(schema)
    return (yield from apply(facts))


def _told(error: Exception, schema: SchemaName, command: str) -> Exception:
    if sqlstate_of(error) == _IN_USE:
        return SchemaError(
            f"the schema {schema} was not changed, because a transaction has used one of its tables all the time. "
            f"Wait until it ends (a dump, perhaps), or end it, and run `{command}` again."
        )
    if sqlstate_of(error) != _FORBIDDEN:
        return error
    return SchemaError(
        f"this role may not change the schema {schema} ({message_of(error)}). Nothing was changed. Run "
        f"`{command}` once as the owner of the schema; afterwards workers need no such right."
    )
