"""The SQL that installs, adopts and upgrades: Graphile Worker's objects, and our own beside them.

Each function returns steps for a session to carry out, so that blocking and async clients share them.
"""

from ferryman.schema.extensions import LATEST_EXTENSION
from ferryman.schema.giving_way import GivingWay, give_way
from ferryman.schema.migrating import Migration, MigrationOutcome, migrate, migrate_for_work
from ferryman.schema.status import Layout, SchemaStatus, inspect
from ferryman.schema.uninstalling import Uninstallation, uninstall_extensions
from ferryman.schema.upgrading import Upgrade, upgrade

__all__ = [
    "LATEST_EXTENSION",
    "GivingWay",
    "Layout",
    "Migration",
    "MigrationOutcome",
    "SchemaStatus",
    "Uninstallation",
    "Upgrade",
    "give_way",
    "inspect",
    "migrate",
    "migrate_for_work",
    "uninstall_extensions",
    "upgrade",
]
