"""`ferryman schema upgrade` and `ferryman schema uninstall-extensions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import confirm, database_command, yes_option

if TYPE_CHECKING:
    from ferryman import SyncClient
    from ferryman.schema import Uninstallation, Upgrade

UPGRADE_WARNING = (
    "Workers of graphile-worker 0.16 on this schema will be told to stop and will not start on it again; there is no "
    "way back. Newer Node workers, Rust workers and Ferryman go on."
)
UNINSTALL_WARNING = (
    "Ferryman's own tables and functions will be dropped, and what they recorded with them; jobs stay. Stop all "
    "Ferryman workers first."
)


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """What an upgrade did."""

    done: Upgrade
    exit_code: int = 0

    def document(self) -> object:
        """The revisions before and after, and why something was left alone."""
        return {
            "revision_before": self.done.revision_before,
            "revision_after": self.done.revision_after,
            "functions_repaired": self.done.functions_repaired,
            "note": self.done.note,
        }

    def lines(self) -> list[str]:
        """One sentence for each thing that was done."""
        done, lines = self.done, []
        if done.revision_after != done.revision_before:
            lines.append(f"Upgraded the schema from revision {done.revision_before} to {done.revision_after}.")
        if done.functions_repaired:
            lines.append("add_job and add_jobs have been replaced by bodies that never lose a keyed job.")
        if done.note is not None:
            lines.append(f"Nothing was changed: {done.note}")
        return lines or [f"Nothing to do: the schema is at revision {done.revision_after}."]


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """What was dropped."""

    done: Uninstallation
    exit_code: int = 0

    def document(self) -> object:
        """The names of the objects."""
        return {"dropped": self.done.dropped}

    def lines(self) -> list[str]:
        """The names, or that there were none."""
        if not self.done.dropped:
            return ["Nothing to do: none of Ferryman's own objects is installed."]
        return [f"Dropped: {', '.join(self.done.dropped)}."]


@click.command()
@yes_option
@database_command
def upgrade(client: SyncClient, *, yes: bool) -> UpgradeReport:
    """Take the schema to revision 20 of Graphile Worker.

    This is never done unasked. Revision 19 is breaking: workers of graphile-worker 0.16 stop. A schema that the Rust
    system has migrated is left as it is.

    \b
    Example:
      ferryman schema upgrade --yes
    """
    confirm(UPGRADE_WARNING, "Upgrade?", yes=yes)
    return UpgradeReport(client.upgrade_schema())


@click.command()
@yes_option
@database_command
def uninstall_extensions(client: SyncClient, *, yes: bool) -> UninstallReport:
    """Drop Ferryman's own objects, and leave Graphile's as they are.

    Jobs stay, and Node and Rust workers go on. `ferryman migrate` puts the objects back.

    \b
    Example:
      ferryman schema uninstall-extensions --yes
    """
    confirm(UNINSTALL_WARNING, "Drop them?", yes=yes)
    return UninstallReport(client.uninstall_extensions())
