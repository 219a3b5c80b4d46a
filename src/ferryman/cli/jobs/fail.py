"""`ferryman jobs fail`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import rows_command
from ferryman.cli.jobs.changes import ChangeReport, ids_argument

if TYPE_CHECKING:
    from ferryman import SyncClient


@click.command()
@ids_argument
@click.option("--reason", metavar="TEXT", help="Becomes the job's last error.")
@rows_command
def fail(client: SyncClient, *, job_ids: tuple[int, ...], reason: str | None) -> ChangeReport:
    """Let jobs fail for good.

    They stay in the table with their attempts used up, until they are rescheduled or deleted. Running jobs are
    skipped. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs fail 42 --reason "customer left"
    """
    return ChangeReport.of("Failed", client, job_ids, client.permanently_fail_jobs(job_ids, reason))
