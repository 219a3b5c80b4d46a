"""Upgrades a schema that an older graphile-worker made to revision 20, on request only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from ferryman.database.steps import Call
from ferryman.schema.changing import change
from ferryman.schema.contract import BODIES, BREAKING_REVISIONS, REVISION, schema_statement
from ferryman.schema.facts import Facts, read_facts
from ferryman.schema.installing import replace_functions
from ferryman.schema.status import problem_of

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

_RECORD = schema_statement("record_upgrade")
_ANNOUNCE = schema_statement("announce_upgrade")


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `upgrade`."""

    revision_before: int
    revision_after: int
    functions_repaired: bool
    """True if this call has given the functions Ferryman's bodies."""
    note: str | None = None
    """Why the schema was left as it is; None if it was not, or there was nothing to upgrade."""


def upgrade(schema: SchemaName) -> Steps[Upgrade]:
    """Upgrade the schema to revision 20, and give its functions Ferryman's bodies.

    Revision 19 is breaking: running workers of graphile-worker 0.16 stop, and new ones refuse to start on this schema.
    A schema that the Rust system has migrated is left as it is.
    """
    facts = yield from read_facts(schema)
    if problem_of(facts) is None and (nothing := _nothing_to_do(facts)) is not None:
        return nothing
    return (yield from change(schema, _apply, command="ferryman schema upgrade"))


def _apply(facts: Facts) -> Steps[Upgrade]:
    if (problem := problem_of(facts)) is not None:
        raise problem
    if (nothing := _nothing_to_do(facts)) is not None:
        return nothing
    before = facts.revision or 0
    for revision in range(before + 1, REVISION + 1):
        yield from _record(revision)
    yield from replace_functions()
    return Upgrade(
        revision_before=before, revision_after=max(before, REVISION), functions_repaired=facts.bodies < BODIES
    )


def _nothing_to_do(facts: Facts) -> Upgrade | None:
    revision = facts.revision or 0
    if facts.is_rust_migrated or revision > REVISION:
        note = (
            f"the Rust system, or something newer, has migrated the schema {facts.schema}: its revision {revision} is "
            f"not Graphile's, and its functions are not ours to replace. Upgrade it with the program that made it."
        )
    elif revision == REVISION and facts.bodies >= BODIES:
        note = None
    else:
        return None
    return Upgrade(revision_before=revision, revision_after=revision, functions_repaired=False, note=note)


def _record(revision: int) -> Steps[None]:
    """Record a revision and announce it to Node's workers.

    Revision 19 only marks that `locked_by` names a pool. 20 changed function bodies, which are replaced afterwards.
    """
    is_breaking = revision in BREAKING_REVISIONS
    yield Call(_RECORD, {"id": revision, "is_breaking": is_breaking})
    payload = json.dumps({"migrationNumber": revision, "breaking": is_breaking}, separators=(",", ":"))
    yield Call(_ANNOUNCE, {"payload": payload})
