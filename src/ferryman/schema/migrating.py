"""Installs the schema, or adopts one that Node or Rust installed, and adds Ferryman's extensions."""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from ferryman.database.steps import Commit, Rollback
from ferryman.errors import DatabaseError, SchemaError, SchemaMissingError
from ferryman.schema.changing import change
from ferryman.schema.contract import REVISION
from ferryman.schema.extensions import LATEST_EXTENSION, install_extensions, missing_extensions
from ferryman.schema.facts import Facts, read_facts
from ferryman.schema.installing import install_contract
from ferryman.schema.refusals import GivenWayError
from ferryman.schema.status import notices_of, problem_of, warnings_of

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps

log = logging.getLogger("ferryman.schema")


class MigrationOutcome(Enum):
    """The kinds of result that `migrate` has."""

    INSTALLED = "installed"
    """There was no schema. Graphile's objects and Ferryman's were made."""
    ADOPTED = "adopted"
    """Graphile's objects existed and were not changed. Those of Ferryman's that were missing were added."""
    NOTHING = "nothing"
    """All objects existed. Nothing was locked or written."""


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `migrate`."""

    outcome: MigrationOutcome
    revision: int
    """The revision of Graphile's schema afterwards."""
    extensions_before: int
    """Ferryman's newest extension before; 0 if there was none."""
    extensions_after: int
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """Advice about the schema that was adopted."""


def migrate(schema: SchemaName) -> Steps[Migration]:
    """Install the schema, or adopt one of Node's or Rust's and add Ferryman's missing extensions.

    Many processes may call it at once, also while a migrator of Node's runs. If nothing is missing, it only reads.
    """
    facts = yield from read_facts(schema)
    return (yield from _migrate(schema, facts))


def migrate_for_work(schema: SchemaName) -> Steps[Migration]:
    """Migrate at the start of a worker, which can continue without an extension that only makes it faster.

    Such an extension is tried once, after the needed ones. Many workers start together, and none should keep the others
    from the tables.
    """
    facts = yield from read_facts(schema)
    _respect_given_way(facts)
    if problem_of(facts) is not None or not missing_extensions(facts):
        return (yield from _migrate(schema, facts))
    if any(extension.is_needed for extension in missing_extensions(facts)):
        yield from change(schema, _apply_what_is_needed)
        yield Commit()
        before, facts = facts, (yield from read_facts(schema))
        _log_notices(notices_of(before))
        if not missing_extensions(facts):
            return _result(MigrationOutcome.ADOPTED, before)
    try:
        return (yield from change(schema, _apply_for_work, tries_of_a_table=1))
    except GivenWayError:
        raise
    except (DatabaseError, SchemaError) as error:
        yield Rollback()
        log.warning(
            "this worker continues without %s: %s",
            ", ".join(f"extension {extension.id} ({extension.name})" for extension in missing_extensions(facts)),
            error,
            extra={"event": "extension_missing"},
        )
    return _result(MigrationOutcome.NOTHING, facts)


def _migrate(schema: SchemaName, facts: Facts) -> Steps[Migration]:
    if _is_complete(facts):
        done = _result(MigrationOutcome.NOTHING, facts)
    else:
        done = yield from change(schema, _apply)
    for warning in done.warnings:
        log.warning("%s", warning, extra={"event": "schema_warning"})
    _log_notices(done.notices)
    return done


def _apply_what_is_needed(facts: Facts) -> Steps[None]:
    if (problem := problem_of(facts)) is not None:
        raise problem
    yield from install_extensions(facts, only_needed=True)


def _respect_given_way(facts: Facts) -> None:
    """Raise `GivenWayError` if the schema has given way: putting the objects back would keep the Rust worker out."""
    if isinstance(problem := problem_of(facts), GivenWayError):
        raise problem


def _apply_for_work(facts: Facts) -> Steps[Migration]:
    _respect_given_way(facts)
    return (yield from _apply(facts))


def _apply(facts: Facts) -> Steps[Migration]:
    if _is_complete(facts):
        return _result(MigrationOutcome.NOTHING, facts)
    match problem_of(facts):
        case None | GivenWayError():
            outcome = MigrationOutcome.ADOPTED
        case SchemaMissingError():
            outcome = MigrationOutcome.INSTALLED
            yield from install_contract(facts)
        case problem:
            raise problem
    yield from install_extensions(facts)
    return _result(outcome, facts)


def _is_complete(facts: Facts) -> bool:
    return problem_of(facts) is None and not missing_extensions(facts)


def _result(outcome: MigrationOutcome, facts: Facts) -> Migration:
    before = facts.extension_revision or 0
    return Migration(
        outcome=outcome,
        revision=facts.revision or REVISION,
        extensions_before=before,
        extensions_after=before if outcome is MigrationOutcome.NOTHING else max(before, LATEST_EXTENSION),
        warnings=warnings_of(facts),
        notices=notices_of(facts) if outcome is MigrationOutcome.ADOPTED else (),
    )


def _log_notices(notices: tuple[str, ...]) -> None:
    for notice in notices:
        log.info("%s", notice, extra={"event": "schema_notice"})
