"""A fresh install: exactly the objects of Graphile Worker's schema, inside the transaction that is open.

Node announces each of its migrations to the whole database, and its workers stop at a breaking one, whichever schema
it was for. Nobody can be working in a schema that is only just being made, so we announce nothing.
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
    """Make what a schema needs that is missing, or was made beforehand but is empty."""
    if not facts.exists:
        yield Script(contract_statement("schema"))
    yield from _install_ledger(facts)
    yield Call(_RECORD, {"revision": REVISION, "breaking": list(BREAKING_REVISIONS)})
    yield Script(contract_statement("tables"))
    yield from replace_functions()
    yield Script(contract_statement("jobs_view"))


def replace_functions() -> Steps[None]:
    """Give every function of the contract our body."""
    for function in FUNCTIONS:
        yield Script(contract_statement(function))


def _install_ledger(facts: Facts) -> Steps[None]:
    if not facts.has_ledger:
        yield Script(contract_statement("migrations"))
    elif "breaking" not in facts.ledger_columns:
        yield Script(contract_statement("breaking_column"))
