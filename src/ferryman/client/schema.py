"""Installing, inspecting and upgrading the schema through a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ferryman.schema as schema_steps

if TYPE_CHECKING:
    from ferryman.client.core import Core
    from ferryman.database.steps import Steps
    from ferryman.schema import Migration, SchemaStatus


def migrate(core: Core) -> Steps[Migration]:
    """Install the schema, or adopt one that Node or Rust has installed; does nothing when all is there.

    Tables and functions of an adopted schema are not changed; Ferryman's own objects are put beside them.
    """
    done = yield from schema_steps.migrate(core.schema)
    return done


def schema_status(core: Core) -> Steps[SchemaStatus]:
    """What is installed, and whether this version of Ferryman can use it."""
    status = yield from schema_steps.inspect(core.schema)
    return status
