"""Installs, inspects and upgrades the schema through a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ferryman.schema as schema_steps
from ferryman.database.statements import load_statement
from ferryman.database.steps import Call

if TYPE_CHECKING:
    from ferryman.client.base import Core
    from ferryman.database.steps import Steps
    from ferryman.schema import GivingWay, Migration, SchemaStatus, Uninstallation, Upgrade

_PING = load_statement("ferryman.database", "backend_pid")


def migrate(core: Core) -> Steps[Migration]:
    """Install the schema, or adopt one that Node or Rust has installed. Does nothing if all of it is there.

    Tables and functions of an adopted schema are not changed; Ferryman's own objects are added beside them.
    """
    done = yield from schema_steps.migrate(core.schema)
    return done


def ping(_core: Core) -> Steps[None]:
    """Check that the database answers; `DatabaseUnavailableError` if it does not."""
    yield Call(_PING)


def schema_status(core: Core) -> Steps[SchemaStatus]:
    """Report what is installed, and whether this version of Ferryman can use it."""
    status = yield from schema_steps.inspect(core.schema)
    return status


def upgrade_schema(core: Core) -> Steps[Upgrade]:
    """Upgrade a schema that Node 0.16 or 0.17 has installed to the newest revision. Nothing else upgrades it.

    At revision 18, this also stops running Node 0.16 workers, because they cannot use later revisions.
    """
    done = yield from schema_steps.upgrade(core.schema)
    return done


def uninstall_extensions(core: Core) -> Steps[Uninstallation]:
    """Remove Ferryman's own objects. Graphile's tables, all jobs and what a Rust program installed stay."""
    done = yield from schema_steps.uninstall_extensions(core.schema)
    return done


def give_way(core: Core, *, force: bool = False) -> Steps[GivingWay]:
    """Drop Ferryman's copies of a Rust worker's objects, so that it can migrate a schema of Node 0.16 or 0.17.

    Refused while workers are registered, unless forced. Forced, these workers start no jobs until the Rust worker has
    migrated, and their running jobs are cancelled and given back. Jobs stay. `migrate` puts the copies back.
    """
    done = yield from schema_steps.give_way(core.schema, force=force)
    return done
