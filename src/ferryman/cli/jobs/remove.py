"""`ferryman jobs remove`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import rows_command
from ferryman.cli.failures import NotFoundError
from ferryman.cli.job_form import job_document

if TYPE_CHECKING:
    from ferryman import Job, SyncClient


@dataclass(frozen=True, slots=True)
class RemovedReport:
    """The job that was removed, as it was."""

    job: Job
    exit_code: int = 0

    def document(self) -> object:
        """The whole job; `state` is running when it was left to finish."""
        return job_document(self.job)

    def lines(self) -> list[str]:
        """Gone, or left to finish."""
        if self.job.locked_by is None:
            return [f"Removed job {self.job.id}."]
        worker = clean_line(self.job.locked_by)
        return [f"Job {self.job.id} is left to finish on worker {worker}: it lost its key and will not be retried."]


@click.command()
@click.argument("key")
@rows_command
def remove(client: SyncClient, *, key: str) -> RemovedReport:
    """Remove the job that has a key.

    A job that is running is left to finish, but loses its key and is not retried.

    \b
    Example:
      ferryman jobs remove invoice:1007
    """
    job = client.remove_job(key)
    if job is None:
        raise NotFoundError(f"no job has the key {key!r}; nothing was changed.")
    return RemovedReport(job)
