"""`ferryman migrate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import database_command

if TYPE_CHECKING:
    from ferryman import SyncClient
    from ferryman.schema import Migration

_TOLD = {
    "installed": "Installed the schema at revision {revision} of Graphile Worker, with extension {extensions} of ours.",
    "adopted": "Adopted the schema at revision {revision} of Graphile Worker: its tables and functions were not "
    "touched, and our extensions 1 to {extensions} are beside them.",
    "nothing": "Nothing to do: revision {revision} of Graphile Worker and extension {extensions} of ours are there.",
}


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What was done to the schema."""

    done: Migration
    exit_code: int = 0

    def document(self) -> object:
        """The outcome is one of: installed, adopted, nothing."""
        return {
            "outcome": self.done.outcome.value,
            "revision": self.done.revision,
            "extensions_before": self.done.extensions_before,
            "extensions_after": self.done.extensions_after,
            "warnings": self.done.warnings,
            "notices": self.done.notices,
        }

    def lines(self) -> list[str]:
        """One sentence, and warnings and notices if there are any."""
        told = _TOLD[self.done.outcome.value]
        warnings = [f"Warning: {warning}" for warning in self.done.warnings]
        notices = [f"Note: {notice}" for notice in self.done.notices]
        return [told.format(revision=self.done.revision, extensions=self.done.extensions_after), *warnings, *notices]


@click.command()
@database_command
def migrate(client: SyncClient) -> MigrationReport:
    """Install the schema, or adopt one that Node or Rust installed.

    Tables and functions of an adopted schema are not changed; Ferryman's own objects are put beside them. Running it
    again, or from many machines at once, does no harm.

    \b
    Example:
      ferryman migrate --database-url postgresql://me@localhost/app
    """
    return MigrationReport(client.migrate())
