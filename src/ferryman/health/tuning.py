"""Options of the tables that are never a default, because the tables are Graphile Worker's: chosen, and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ferryman.database.failures import sqlstate_of
from ferryman.database.statements import Style
from ferryman.database.steps import Commit, Rollback, Transaction
from ferryman.errors import DatabaseError, IncompatibleSchemaError, SchemaMissingError
from ferryman.queries import checks

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

KEY_INDEX = "jobs_key_key1"
BYTES_PER_ENTRY = 21.2
"""Of a job without a key, stored by itself: measured with a million jobs."""
LOCK_NOT_AVAILABLE = "55P03"


class Tuning(Enum):
    """An option that changes how PostgreSQL stores a queue, and nothing else."""

    KEY_INDEX = "key-index"
    """Do not deduplicate the index of job keys. Claims of jobs without a key cost the server less; the index grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What `tune` or `untune` did, or would do."""

    tuning: Tuning
    was_on: bool
    """True if the option was in force before."""
    is_on: bool
    """True if it is in force now."""
    statement: str | None
    """The statement that was run, or would be run; None if nothing is to be changed."""
    size: int
    """Bytes of the index."""
    expected_size: int
    """Bytes to which it grows at least with the option, if all jobs that are there now are stored anew."""
    jobs: int
    keyless_jobs: int
    """Jobs without a key, for which the option is made."""


def change(schema: SchemaName, tuning: Tuning, *, is_wanted: bool, dry_run: bool) -> Steps[Tuned]:
    """Bring the option into force, or take it back. Nothing is changed if it is so already."""
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
    """Whether the index deduplicates, and its size; an error if this role cannot change it."""
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
            f"`ferryman doctor` says how to put it back."
        )
    if not may_alter:
        raise DatabaseError(
            f"the role {role} may not alter the index {KEY_INDEX} of the schema {schema}, which belongs to {owner}. "
            f"Nothing was changed. Do it again as {owner}."
        )
    return deduplicates, size


def _refused(error: DatabaseError) -> DatabaseError:
    if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
        return error
    return DatabaseError(
        f"another session has locked the index {KEY_INDEX}, as `reindex` does, and did not free it within 2 s. Nothing "
        f"was changed. Try again later, or look for that session in pg_stat_activity."
    )
