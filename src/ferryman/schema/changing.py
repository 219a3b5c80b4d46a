"""Changes a schema: one change at a time, each in one transaction, retried if it collides with another migrator."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from ferryman.database.failures import (
    DEADLOCK_DETECTED,
    LOCK_NOT_AVAILABLE,
    SERIALISATION_FAILURE,
    message_of,
    sqlstate_of,
)
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
"""How long a change waits for another program's install to finish. Deployments wait longer."""
MOST_COLLISIONS = 10
"""The most collisions in a change. Each means that another migrator was quicker; the next attempt sees its work."""
MOST_TRIES_OF_A_TABLE = 10
"""How often a change asks for a table that is in use. While it waits for the table, all others wait behind it."""

_LOCK = schema_statement("lock")
_FORBIDDEN = "42501"
_IN_USE = LOCK_NOT_AVAILABLE
"""A table to lock is in use for longer than others should wait behind us."""
_COLLISIONS = {
    "23505",  # a ledger row, or a row of the catalogue, that another migrator wrote first
    "42P06",  # schema exists
    "42P07",  # table, index or sequence exists
    "42710",  # type or constraint exists
    "42723",  # function exists
    SERIALISATION_FAILURE,
    DEADLOCK_DETECTED,
    "XX000",  # "tuple concurrently updated": two replace the same function
}
_BODY_QUOTE = "$ferryman$"
"""Encloses the bodies of our functions. They name the schema, and a name that contains this would end the body."""


def change(
    schema: SchemaName,
    apply: Callable[[Facts], Steps[R]],
    *,
    tries_of_a_table: int | None = None,
    command: str = "ferryman migrate",
) -> Steps[R]:
    """Change a schema with `apply`, in one transaction. Only one program at a time does so; collisions are retried.

    apply: makes the change; its facts stay true until the transaction ends
    tries_of_a_table: how often to ask for a table that is in use; None for the usual number
    command: the command that an error says to run again
    """
    if _BODY_QUOTE in schema.name:
        raise ConfigurationError(f"a schema name must not contain {_BODY_QUOTE!r}: {schema.name!r}")

    collisions, tries, waited = 0, 0, 0.0
    while True:
        # Random, so that two changes that collided do not collide again.
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
            is_last = collisions > MOST_COLLISIONS or tries >= (tries_of_a_table or MOST_TRIES_OF_A_TABLE)
            if is_last or sqlstate_of(error) not in {*_COLLISIONS, _IN_USE}:
                raise _explained(error, schema, command) from error.__cause__
        yield Rollback()
        yield Wait(pause)
        waited += pause


def _attempt(schema: SchemaName, apply: Callable[[Facts], Steps[R]]) -> Steps[R]:
    yield Transaction()
    yield Call(_LOCK, {"name": schema.name})
    facts = yield from read_facts(schema)
    return (yield from apply(facts))


def _explained(error: Exception, schema: SchemaName, command: str) -> Exception:
    if sqlstate_of(error) == _IN_USE:
        return SchemaError(
            f"the schema {schema} was not changed, because a transaction has used one of its tables all the time. "
            f"Wait until that transaction ends (it may be a dump), or end it, and run `{command}` again."
        )
    if sqlstate_of(error) != _FORBIDDEN:
        return error
    return SchemaError(
        f"this role may not change the schema {schema} ({message_of(error)}). Nothing was changed. Run "
        f"`{command}` once as the owner of the schema; afterwards workers need no such right."
    )
