"""`ferryman cron run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import database_command
from ferryman.cli.job_form import job_document

if TYPE_CHECKING:
    from ferryman import Job, SyncClient


@dataclass(frozen=True, slots=True)
class RunReport:
    """The job that was added."""

    job: Job
    exit_code: int = 0

    def document(self) -> object:
        """The whole job."""
        return job_document(self.job)

    def lines(self) -> list[str]:
        """Its id and its task."""
        return [f"Added job {self.job.id} for {clean_line(self.job.task_identifier or '')}."]


@click.command()
@click.argument("identifier")
@database_command
def run(client: SyncClient, *, identifier: str) -> RunReport:
    """Add the job of a schedule of the database now.

    Paused or not; when it fires next does not change.

    \b
    Example:
      ferryman cron run daily-report
    """
    return RunReport(client.schedules.run_now(identifier))
