"""Driver errors, told in Ferryman's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.errors import DatabaseError, DatabaseUnavailableError, FerrymanError, SchemaMissingError

if TYPE_CHECKING:
    from ferryman.database.identifiers import SchemaName

_MISSING_OBJECT = {"3F000", "42P01", "42883", "42704"}
"""Undefined schema, table, function, type."""
_UNAVAILABLE_CLASSES = ("08", "57P", "53")
"""Connection failures, server going down or starting up, out of connections or memory."""

_READ_ONLY = "25006"


def explain(error: Exception, schema: SchemaName) -> FerrymanError:
    """The error to raise, from `error`, for a statement that failed."""
    state = sqlstate_of(error)
    message = message_of(error)
    if state in _MISSING_OBJECT:
        return SchemaMissingError(
            f"the schema {schema} is not installed in this database, or not completely ({message}). "
            f"Install it with `ferryman migrate`, or `await client.migrate()`."
        )
    if state is None or state.startswith(_UNAVAILABLE_CLASSES):
        return DatabaseUnavailableError(
            f"the database did not answer: {message}. If a statement was under way, it may or may not have taken "
            f"effect; adding a job again is safe when it has a job_key."
        )
    return DatabaseError(f"PostgreSQL refused the statement ({state}): {message}")


def is_stale(error: BaseException) -> bool:
    """Whether only a new connection can help: this one leads to a server that has become, or was made, read-only."""
    return sqlstate_of(error) == _READ_ONLY


def sqlstate_of(error: BaseException | None) -> str | None:
    """PostgreSQL's error code, whichever driver or wrapper carries it."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            state = getattr(error, name, None)
            if isinstance(state, str):
                return state
        error = getattr(error, "orig", None) or error.__cause__
    return None


def message_of(error: BaseException) -> str:
    """PostgreSQL's own sentence, without details that may quote the row."""
    innermost: BaseException = error
    while (deeper := getattr(innermost, "orig", None) or innermost.__cause__) is not None:
        innermost = deeper
    diagnostics = getattr(innermost, "diag", None)
    primary = getattr(diagnostics, "message_primary", None)
    return str(primary or innermost).strip().split("\nDETAIL:")[0]
