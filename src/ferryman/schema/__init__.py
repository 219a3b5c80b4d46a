"""Installs, adopts, upgrades and describes a schema: Graphile Worker's objects, and Ferryman's beside them.

Each function returns steps for a session to carry out, so that blocking and async clients share them. The SQL is in the
folder `sql`: `contract` has Graphile's objects, `extensions` has Ferryman's.
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
