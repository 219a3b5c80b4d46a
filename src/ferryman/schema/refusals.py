"""Why a schema cannot be used: each reason with what to do about it."""

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
    """Another program is installing the schema at this moment."""


class GivenWayError(IncompatibleSchemaError):
    """Our copies of Rust's objects are gone, and Rust's own are not there yet."""


def given_way(facts: Facts) -> SchemaError:
    """A Rust worker was expected to migrate next."""
    return GivenWayError(
        f"the schema {facts.schema} has given way to a Rust worker, which has not migrated it yet: the table "
        f"{RUST_WORKERS} and its functions are missing. Start the Rust worker, and Ferryman's workers after it. If "
        f"none is coming, `ferryman migrate` puts Ferryman's copies back."
    )


def server_too_old(facts: Facts) -> SchemaError:
    """PostgreSQL lacks what we need."""
    return UnsupportedServerError(
        f"Ferryman needs PostgreSQL {OLDEST_SERVER // _MAJOR} or newer; this server is "
        f"{_release(facts.server_version)}. Nothing was changed."
    )


def not_installed(facts: Facts) -> SchemaError:
    """There is nothing, yet."""
    return SchemaMissingError(
        f"the schema {facts.schema} is not installed in this database. "
        f"Install it with `ferryman migrate`, or `await client.migrate()`."
    )


def names_taken(facts: Facts, names: Sequence[str]) -> SchemaError:
    """The schema is somebody else's, or damaged."""
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
    """A newer Graphile Worker has changed what we rely on."""
    return IncompatibleSchemaError(
        f"the schema {facts.schema} is at revision {facts.revision}, which includes the breaking revision "
        f"{facts.highest_breaking}; this version of Ferryman supports revisions {OLDEST_REVISION} to {REVISION}. "
        f"It would be unsafe to go on, and nothing was changed. Use a version of Ferryman that supports it, and make "
        f"sure that all workers on this schema agree."
    )


def too_old(facts: Facts) -> SchemaError:
    """Graphile's own migrations must run first: we have no copies of the steps before 18."""
    return IncompatibleSchemaError(
        f"the schema {facts.schema} is at revision {facts.revision}; Ferryman needs at least {OLDEST_REVISION}. "
        f"Nothing was changed. Upgrade it with graphile-worker 0.16 or newer first: "
        f"npx graphile-worker@0.18 --schema-only"
    )


def extended_by_newer(facts: Facts, latest: int) -> SchemaError:
    """A newer Ferryman knows what depends on what; this one does not."""
    return IncompatibleSchemaError(
        f"extension {facts.extension_revision} of the schema {facts.schema} is newer than this version of "
        f"Ferryman, which has {latest}. Nothing was changed; use the version that installed it."
    )


def under_way(facts: Facts) -> SchemaError:
    """Somebody else is at it."""
    return MigrationUnderWayError(
        f"the schema {facts.schema} is at revision {facts.revision} of {REVISION}, and got there a moment ago: "
        f"another program seems to be installing it. Nothing was changed; try again when it has finished."
    )


def _release(version: int) -> str:
    return f"{version // _MAJOR}.{version % _MAJOR}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
