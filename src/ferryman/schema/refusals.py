"""The errors for a schema that cannot be used: each with its reason, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.errors import IncompatibleSchemaError, SchemaError, SchemaMissingError, UnsupportedServerError
from ferryman.schema.contract import OLDEST_REVISION, OLDEST_SERVER, REVISION
from ferryman.schema.facts import RUST_WORKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.schema.facts import Facts

_MAJOR = 10000


class MigrationUnderWayError(IncompatibleSchemaError):
    """Another program seems to be installing the schema now."""


class GivenWayError(IncompatibleSchemaError):
    """The schema waits for a Rust worker to migrate it, since `give_way` dropped our copies of its objects."""


def given_way(facts: Facts) -> SchemaError:
    """The error for a schema that waits for a Rust worker's migration after `give_way`."""
    return GivenWayError(
        f"the schema {facts.schema} has given way to a Rust worker, which has not migrated it yet: the table "
        f"{RUST_WORKERS} and its functions are missing. Nothing was changed. Start the Rust worker, and "
        f"Ferryman's workers after it. If there is none to start, `ferryman migrate` puts Ferryman's copies back."
    )


def server_too_old(facts: Facts) -> SchemaError:
    """The error for a server older than Ferryman needs."""
    return UnsupportedServerError(
        f"Ferryman needs PostgreSQL {OLDEST_SERVER // _MAJOR} or newer; this server is "
        f"{_release(facts.server_version)}. Nothing was changed. Upgrade the server, or use another."
    )


def not_installed(facts: Facts) -> SchemaError:
    """The error for a schema that does not exist or is empty."""
    return SchemaMissingError(
        f"the schema {facts.schema} is not installed in this database. "
        f"Install it with `ferryman migrate`, or `await client.migrate()`."
    )


def names_taken(facts: Facts, names: Sequence[str]) -> SchemaError:
    """The error for a schema of another program, or one that is damaged.

    names: those that other objects have, or that are missing
    """
    if facts.revision is not None:
        return IncompatibleSchemaError(
            f"the schema {facts.schema} has the ledger of Graphile Worker's revision {facts.revision}, but lacks "
            f"{_listed(names)}. It is damaged, or not Graphile's. Nothing was changed; restore it, or choose "
            f"another schema name."
        )
    return IncompatibleSchemaError(
        f"the schema {facts.schema} is not Graphile Worker's, and it already contains {_listed(names)}, "
        f"which an install would need. Nothing was changed; choose another schema name."
    )


def too_new(facts: Facts) -> SchemaError:
    """The error for a schema that a newer Graphile Worker has changed in a breaking way."""
    return IncompatibleSchemaError(
        f"the schema {facts.schema} is at revision {facts.revision}, which includes the breaking revision "
        f"{facts.highest_breaking}; this version of Ferryman supports revisions {OLDEST_REVISION} to {REVISION}. "
        f"Nothing was changed, as it would be unsafe to continue. Use a version of Ferryman that supports the breaking "
        f"revision, and check that all other workers on this schema support it too."
    )


def too_old(facts: Facts) -> SchemaError:
    """The error for a schema that Graphile's own migrations must upgrade first: we have no steps before 18."""
    return IncompatibleSchemaError(
        f"the schema {facts.schema} is at revision {facts.revision}; Ferryman needs at least {OLDEST_REVISION}. "
        f"Nothing was changed. Upgrade it with graphile-worker 0.16 or newer first: "
        f"npx graphile-worker@0.18 --schema-only"
    )


def extended_by_newer(facts: Facts, latest: int) -> SchemaError:
    """The error for a schema with extensions of a newer Ferryman: this one does not know what depends on them."""
    return IncompatibleSchemaError(
        f"extension {facts.extension_revision} of the schema {facts.schema} is newer than this version of "
        f"Ferryman, which has {latest}. Nothing was changed; use the version that installed it."
    )


def under_way(facts: Facts) -> SchemaError:
    """The error for a schema that another program seems to be installing."""
    return MigrationUnderWayError(
        f"the schema {facts.schema} is at revision {facts.revision} of {REVISION}, and got there a moment ago: "
        f"another program seems to be installing it. Nothing was changed. Try again when it has finished."
    )


def _release(version: int) -> str:
    return f"{version // _MAJOR}.{version % _MAJOR}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
