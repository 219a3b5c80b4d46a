"""Turns storage options of Graphile Worker's tables on and off. None is ever on by default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ferryman.database.failures import LOCK_NOT_AVAILABLE, sqlstate_of
from ferryman.database.statements import Style
from ferryman.database.steps import Commit, Rollback, Transaction
from ferryman.errors import DatabaseError, IncompatibleSchemaError, SchemaMissingError
from ferryman.queries import checks

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

KEY_INDEX = "jobs_key_key1"
BYTES_PER_ENTRY = 21.2
"""The index entry of a job without a key, without deduplication: measured with a million jobs."""


class Tuning(Enum):
    """An option that only changes how PostgreSQL stores a queue."""

    KEY_INDEX = "key-index"
    """Turn deduplication of the key index off. Claims of jobs without a key cost the server less; the index grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of `tune` or `untune`, or of a dry run of them."""

    tuning: Tuning
    was_on: bool
    """True if the option was on before."""
    is_on: bool
    """True if it is on now."""
    statement: str | None
    """The statement that was run, or would be; None if there is nothing to change."""
    size: int
    """Bytes of the index."""
    expected_size: int
    """The size in bytes that it reaches at least with the option on, if all current jobs are stored anew."""
    jobs: int
    keyless_jobs: int
    """Jobs without a key, which the option is for."""


def change(schema: SchemaName, tuning: Tuning, *, is_wanted: bool, dry_run: bool) -> Steps[Tuned]:
    """Turn an option of the tables on or off. Changes nothing if it already is."""
    yield Transaction()
    yield checks.tuning_settings()
    deduplicates, size = yield from _examined(schema)
    [(jobs, keyless)] = yield checks.keyless_jobs()
    was_on = not deduplicates
    call = checks.tune_key_index() if is_wanted else checks.untune_key_index()
    is_needed = was_on is not is_wanted
    if is_needed and not dry_run:
        try:
            yield call
        except DatabaseError as error:
            yield Rollback()
            raise _refused(error) from error.__cause__
    yield Commit()
    return Tuned(
        tuning=tuning,
        was_on=was_on,
        is_on=was_on if dry_run else is_wanted,
        statement=call.statement.text(schema, Style.NUMBERED) if is_needed else None,
        size=size,
        expected_size=max(size, round(keyless * BYTES_PER_ENTRY)),
        jobs=jobs,
        keyless_jobs=keyless,
    )


def _examined(schema: SchemaName) -> Steps[tuple[bool, int]]:
    """Read whether the index deduplicates, and its size. Raises an error if this role cannot change it."""
    rows = yield checks.key_index(schema.name)
    if not rows:
        raise SchemaMissingError(
            f"the schema {schema} has no table of jobs, so there is nothing to tune, and nothing was changed. Install "
            f"the schema with `ferryman migrate`, or `await client.migrate()`."
        )
    [(is_there, role, owner, may_alter, deduplicates, size)] = rows
    if not is_there:
        raise IncompatibleSchemaError(
            f"the table of jobs in the schema {schema} has no index {KEY_INDEX}, so nothing was changed. "
            f"`ferryman doctor` shows how to create it."
        )
    if not may_alter:
        raise DatabaseError(
            f"the role {role} may not alter the index {KEY_INDEX} of the schema {schema}, which belongs to {owner}. "
            f"Nothing was changed. Run this as {owner}."
        )
    return deduplicates, size


def _refused(error: DatabaseError) -> DatabaseError:
    if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
        return error
    return DatabaseError(
        f"another session has locked the index {KEY_INDEX}, as `reindex` does, and did not release it within 2 s. "
        f"Nothing was changed. Try again later, or look for that session in pg_stat_activity."
    )
