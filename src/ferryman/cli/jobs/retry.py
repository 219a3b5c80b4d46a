"""`ferryman jobs retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferryman import JobState
from ferryman.cli.commands import rows_command
from ferryman.cli.jobs.changes import ChangeReport
from ferryman.cli.numbers import JOB_ID

if TYPE_CHECKING:
    from ferryman import SyncClient


@click.command()
@click.argument("job_ids", metavar="[ID...]", type=JOB_ID, nargs=-1)
@click.option("--task", metavar="IDENTIFIER", help="All failed jobs of this task.")
@click.option("--state", type=click.Choice([JobState.FAILED.value]), help="All failed jobs, or those of --task.")
@rows_command
def retry(client: SyncClient, *, job_ids: tuple[int, ...], task: str | None, state: str | None) -> ChangeReport:
    """Let failed jobs run again.

    They run at once, under their ids, as if they were new: no attempt is used, and no crash counts. Jobs that have not
    failed are skipped. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs retry 42 43
      ferryman jobs retry --task send_email --state failed
    """
    if bool(job_ids) == (task is not None or state is not None):
        raise click.UsageError("name the jobs by their ids, or with --task and --state failed.")
    if job_ids:
        return ChangeReport.of("Retrying", client, job_ids, client.retry_jobs(job_ids), failed_only=True)
    return ChangeReport("Retrying", client.retry_jobs(task=task), [])
