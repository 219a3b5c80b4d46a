"""`ferryman schema give-way`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import confirm, database_command, yes_option

if TYPE_CHECKING:
    from ferryman import SyncClient
    from ferryman.schema import GivingWay

WARNING = (
    "Ferryman's table of workers and its functions will be dropped, for a Rust worker to make its own; jobs stay. "
    "Until it has, Ferryman's workers do not start on this schema."
)


@dataclass(frozen=True, slots=True)
class GivingWayReport:
    """What was dropped."""

    done: GivingWay
    exit_code: int = 0

    def document(self) -> object:
        """The names of the objects, and why there were none."""
        return {"dropped": self.done.dropped, "note": self.done.note}

    def lines(self) -> list[str]:
        """The names and what comes next, or that there was nothing to do."""
        if self.done.note is not None:
            return [f"Nothing to do: {self.done.note}"]
        return [
            f"Dropped: {', '.join(self.done.dropped)}.",
            "Start the Rust worker now, and Ferryman's workers after it. `ferryman migrate` takes this back.",
        ]


@click.command()
@click.option("--force", is_flag=True, help="Do it although workers are registered. What they are running runs again.")
@yes_option
@database_command
def give_way(client: SyncClient, *, force: bool, yes: bool) -> GivingWayReport:
    """Let a Rust worker migrate a schema of Node 0.16 or 0.17.

    At revisions below 20 a Rust worker makes its table of workers and its recovery functions itself, and fails where
    Ferryman has made them already. This drops Ferryman's copies. Stop Ferryman's workers, run this, start the Rust
    worker, and start Ferryman's workers again.

    \b
    Example:
      ferryman schema give-way --yes
    """
    confirm(WARNING, "Give way?", yes=yes)
    return GivingWayReport(client.give_way(force=force))
