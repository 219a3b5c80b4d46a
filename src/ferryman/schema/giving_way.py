"""Makes room for a Rust worker on a schema of Node 0.16 or 0.17 that Ferryman has adopted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ferryman.database.steps import Call, Script
from ferryman.errors import SchemaError
from ferryman.schema import refusals
from ferryman.schema.changing import change
from ferryman.schema.contract import schema_statement
from ferryman.schema.extensions import LATEST_EXTENSION, drop_shared, has_given_way
from ferryman.schema.facts import RUST_WORKERS, RUST_WORKERS_REVISION, Facts

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

_LOCK = schema_statement("lock_workers")
_READ = schema_statement("read_registered_workers")
_MOST_NAMES = 5


class GivingWay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `give_way`."""

    dropped: tuple[str, ...] = ()
    """The names of the objects that were dropped."""
    note: str | None = None
    """Why there was nothing to do; None if something was dropped."""


def give_way(schema: SchemaName, *, force: bool = False) -> Steps[GivingWay]:
    """Drop our copies of the objects that a Rust worker makes itself. Does nothing if it has made its own.

    Ferryman's workers do not start on this schema until a Rust worker has migrated it.

    force: True to drop them although workers are registered. Those start no jobs until the Rust worker has migrated.
        Then each takes a new id, and the jobs that it was running are cancelled and given back.
    """
    return (yield from change(schema, partial(_apply, force=force), command="ferryman schema give-way"))


def _apply(facts: Facts, *, force: bool) -> Steps[GivingWay]:
    if (note := _nothing_to_do(facts)) is not None:
        return GivingWay(note=note)
    if (facts.extension_revision or 0) > LATEST_EXTENSION:
        raise refusals.extended_by_newer(facts, LATEST_EXTENSION)
    yield Script(_LOCK)
    registered = [worker_id for (worker_id,) in (yield Call(_READ))]
    if registered and not force:
        raise SchemaError(_registered(facts, registered))
    dropped = yield from drop_shared(facts)
    return GivingWay(dropped=dropped)


def _nothing_to_do(facts: Facts) -> str | None:
    if has_given_way(facts):
        return f"the schema {facts.schema} has given way already; start a Rust worker, which migrates it."
    if RUST_WORKERS not in facts.made:
        return f"the schema {facts.schema} has no {RUST_WORKERS} that Ferryman made."
    if (facts.revision or 0) >= RUST_WORKERS_REVISION:
        return (
            f"the schema {facts.schema} is at revision {facts.revision}: from {RUST_WORKERS_REVISION} on, a Rust "
            f"worker uses the objects that it finds."
        )
    return None


def _registered(facts: Facts, ids: list[str]) -> str:
    names = ", ".join(ids[:_MOST_NAMES]) + (f" and {len(ids) - _MOST_NAMES} more" if len(ids) > _MOST_NAMES else "")
    return (
        f"workers are registered in the schema {facts.schema}: {names}. Nothing was changed. Stop them first, and "
        f"recover dead ones with `ferryman workers recover`. With --force (force=True) the schema gives way at once: "
        f"these workers start no jobs until a Rust worker has migrated. Then they take new ids, and the jobs that they "
        f"were running are cancelled and given back."
    )
