"""Translates errors of database drivers into the `FerrymanError` to raise, which says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferryman.errors import DatabaseError, DatabaseUnavailableError, FerrymanError, SchemaMissingError

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName

_NO_SCHEMA = "3F000"
_MISSING_OBJECT = {_NO_SCHEMA, "42P01", "42883", "42704"}
"""Undefined schema, table, function, type."""
_UNAVAILABLE_CLASSES = ("08", "57P", "53")
"""Connection failures, server going down or starting up, out of connections or memory."""

DATA_ERRORS = ("22", "23", "44", "54", "P0")
"""Classes of SQLSTATE that blame the data: out of range, constraint, view, too large, refused by a trigger."""
LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED, SERIALISATION_FAILURE = "55P03", "40P01", "40001"
_READ_ONLY = "25006"
_FUNCTION = re.compile(r'PL/.*?([\w$."]+\([^()]*\))')
"""A function in PostgreSQL's context of an error, in any language."""


def explain(error: Exception, schema: SchemaName) -> FerrymanError:
    """Return the error to raise for a statement that failed, without its cause."""
    state = sqlstate_of(error)
    message = message_of(error)
    # Our statements name every object of ours with its schema, so a missing one is reported with it.
    ours = schema.name if state == _NO_SCHEMA else f"{schema.name}."
    if state in _MISSING_OBJECT and f"{ours}_private_workers" in message:
        return SchemaMissingError(
            f"the schema {schema} has no table of workers ({message}). `ferryman schema status` says whether it has "
            f"given way to a Rust worker, which makes the table when it starts. If not, run `ferryman migrate`."
        )
    if state in _MISSING_OBJECT and ours in message:
        return SchemaMissingError(
            f"the schema {schema} is not installed in this database, or not completely ({message}). "
            f"Install it with `ferryman migrate`, or `await client.migrate()`."
        )
    if state is None and _is_about_a_value(_innermost(error)):
        return DatabaseUnavailableError(
            f"the driver cannot translate what was sent or what came back: {message}. The statement may or may not "
            f"have taken effect. If the connection is yours, give it client_encoding UTF8 and DateStyle ISO."
        )
    if state is None or state.startswith(_UNAVAILABLE_CLASSES):
        return DatabaseUnavailableError(
            f"the database did not answer: {message}. If a statement was under way, it may or may not have taken "
            f"effect; adding a job again is safe when it has a job_key."
        )
    refusal = f"PostgreSQL refused the statement ({state}): {message}"
    culprit = _FUNCTION.search(_context_of(error)) if state in _MISSING_OBJECT else None
    if culprit is not None:
        refusal += (
            f". The function {culprit[1]} asked for it, perhaps as a trigger. Ferryman's sessions have the search_path "
            f"pg_catalog, pg_temp: let the function name the schemas of what it uses, or set its own search_path."
        )
    return DatabaseError(refusal)


def explained(error: Exception, schema: SchemaName) -> FerrymanError:
    """Return the error to raise for a statement that failed, with the driver's error as its cause."""
    explanation = explain(error, schema)
    explanation.__cause__ = error
    return explanation


def is_stale(error: BaseException) -> bool:
    """True if only a new connection can help, because this server has become read-only."""
    return sqlstate_of(error) == _READ_ONLY


def sqlstate_of(error: BaseException | None) -> str | None:
    """Return PostgreSQL's error code, whichever driver or wrapper carries it."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            state = getattr(error, name, None)
            if isinstance(state, str):
                return state
        error = getattr(error, "orig", None) or error.__cause__
    return None


def message_of(error: BaseException) -> str:
    """Return PostgreSQL's own message, without details that may quote the row."""
    innermost = _innermost(error)
    diagnostics = getattr(innermost, "diag", None)
    primary = getattr(diagnostics, "message_primary", None)
    return str(primary or innermost).strip().split("\nDETAIL:")[0]


def _is_about_a_value(error: BaseException) -> bool:
    """True if the driver could not encode or decode a value: a date style, a character, an infinite time."""
    return isinstance(error, (NotImplementedError, UnicodeError)) or type(error).__name__ == "DataError"


def _context_of(error: BaseException) -> str:
    """Return PostgreSQL's context of the error, whichever driver or wrapper carries it."""
    innermost = _innermost(error)
    return str(getattr(getattr(innermost, "diag", innermost), "context", None) or "")


def _innermost(error: BaseException) -> BaseException:
    while (deeper := getattr(error, "orig", None) or error.__cause__) is not None:
        error = deeper
    return error
