"""`ferryman jobs complete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import rows_command
from ferryman.cli.jobs.changes import ChangeReport, ids_argument

if TYPE_CHECKING:
    from ferryman import SyncClient


@click.command()
@ids_argument
@rows_command
def complete(client: SyncClient, *, job_ids: tuple[int, ...]) -> ChangeReport:
    """Delete jobs as if they had run.

    Running jobs are skipped. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs complete 41 42
    """
    return ChangeReport.of("Completed", client, job_ids, client.complete_jobs(job_ids))
