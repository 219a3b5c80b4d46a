"""Installs Graphile Worker's objects into a new schema, inside the transaction that is open.

Nothing is announced. Node's own migrator announces each revision to the whole database, and its workers stop at a
breaking one, whichever schema it is for; but no worker can use a schema that is just being made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.steps import Call, Script
from ferryman.schema.contract import (
    BREAKING_REVISIONS,
    FUNCTIONS,
    REVISION,
    contract_statement,
    schema_statement,
)

if TYPE_CHECKING:
    from ferryman.database.steps import Steps
    from ferryman.schema.facts import Facts

_RECORD = schema_statement("record_installation")


def install_contract(facts: Facts) -> Steps[None]:
    """Make the schema and the ledger, unless they were made beforehand, and then all of Graphile's objects."""
    if not facts.exists:
        yield Script(contract_statement("schema"))
    yield from _install_ledger(facts)
    yield Call(_RECORD, {"revision": REVISION, "breaking": list(BREAKING_REVISIONS)})
    yield Script(contract_statement("tables"))
    yield from replace_functions()
    yield Script(contract_statement("jobs_view"))


def replace_functions() -> Steps[None]:
    """Create or replace each of Graphile's functions, with Ferryman's body."""
    for function in FUNCTIONS:
        yield Script(contract_statement(function))


def _install_ledger(facts: Facts) -> Steps[None]:
    if not facts.has_ledger:
        yield Script(contract_statement("migrations"))
    elif "breaking" not in facts.ledger_columns:
        yield Script(contract_statement("breaking_column"))
