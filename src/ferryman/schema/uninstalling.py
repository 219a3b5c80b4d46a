"""Removes what Ferryman has added to a schema, and leaves Graphile's objects as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ferryman.schema import refusals
from ferryman.schema.changing import change
from ferryman.schema.contract import REVISION
from ferryman.schema.extensions import LATEST_EXTENSION, drop_extensions
from ferryman.schema.facts import EXTENSION_LEDGER, Facts

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps


class Uninstallation(msgspec.Struct, frozen=True):
    """The result of `uninstall_extensions`."""

    dropped: tuple[str, ...]
    """The names of the objects that were dropped."""


def uninstall_extensions(schema: SchemaName) -> Steps[Uninstallation]:
    """Drop what Ferryman's extensions made, and their ledger. Stop Ferryman's workers first.

    Objects that Rust's migrations made or rely on stay. So do Graphile's objects, with the bodies that they have.
    """
    return (yield from change(schema, _apply, command="ferryman schema uninstall-extensions"))


def _apply(facts: Facts) -> Steps[Uninstallation]:
    if EXTENSION_LEDGER not in facts.relations:
        return Uninstallation(())
    if (facts.extension_revision or 0) > LATEST_EXTENSION:
        raise refusals.extended_by_newer(facts, LATEST_EXTENSION)
    # Rust's later migrations replace the bodies of these functions and expect them from then on.
    keep_shared = facts.is_rust_migrated or (facts.revision or 0) > REVISION
    dropped = yield from drop_extensions(facts, keep_shared=keep_shared)
    return Uninstallation(dropped)
