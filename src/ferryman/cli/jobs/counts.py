"""`ferryman jobs counts`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import rows_command
from ferryman.cli.tables import counts_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ferryman import JobCounts, SyncClient


@dataclass(frozen=True, slots=True)
class CountsReport:
    """How many jobs are in each state."""

    counts: JobCounts
    exit_code: int = 0

    def document(self) -> object:
        """A number for each state, and the total."""
        return {**asdict(self.counts), "total": self.counts.total}

    def lines(self) -> list[RenderableType]:
        """All on one line."""
        return [counts_line(self.counts)]


@click.command()
@rows_command
def counts(client: SyncClient) -> CountsReport:
    """Count jobs by state.

    \b
    Example:
      ferryman jobs counts --json
    """
    return CountsReport(client.counts())
