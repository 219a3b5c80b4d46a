"""`ferryman jobs list`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from ferryman import JobState
from ferryman.cli.commands import rows_command
from ferryman.cli.job_form import job_document
from ferryman.cli.numbers import LARGEST_ID, MAX_PAGE_SIZE, Whole
from ferryman.cli.tables import counts_line, jobs_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from ferryman import JobCounts, JobPage, SyncClient

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class ListReport:
    """One page of jobs, and how many there are of all."""

    page: JobPage
    counts: JobCounts
    exit_code: int = 0

    def document(self) -> object:
        """The jobs, where the next page starts, and the counts of all jobs."""
        return {
            "jobs": [job_document(job) for job in self.page.jobs],
            "next_after": self.page.next_after,
            "counts": {**asdict(self.counts), "total": self.counts.total},
        }

    def lines(self) -> Iterator[RenderableType]:
        """The counts, a table, and how to go on."""
        yield counts_line(self.counts)
        yield ""
        yield jobs_table(self.page.jobs) if self.page.jobs else "No jobs to show."
        if self.page.next_after is not None:
            yield f"\nThere are more: add --after {self.page.next_after} to see the next page."


@click.command("list")
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--task", metavar="IDENTIFIER", help="Only jobs of this task.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--key", metavar="KEY", help="Only the job with this key.")
@click.option("--flag", "flags", multiple=True, metavar="FLAG", help="Only jobs with this flag; several mean all.")
@click.option("--limit", type=Whole(1, MAX_PAGE_SIZE), default=PAGE_SIZE, show_default=True, help="The size of a page.")
@click.option("--after", type=Whole(0, LARGEST_ID), metavar="ID", help="Only jobs with a greater id.")
@rows_command
def list_jobs(
    client: SyncClient,
    *,
    state: str | None,
    task: str | None,
    queue: str | None,
    key: str | None,
    flags: tuple[str, ...],
    limit: int,
    after: int | None,
) -> ListReport:
    """List jobs, oldest first.

    Jobs that are done are gone: they are not kept. Times are in UTC.

    \b
    Example:
      ferryman jobs list --state failed --task send_email
    """
    page = client.list_jobs(
        state=state, task=task, queue_name=queue, job_key=key, flags=flags or None, limit=limit, after=after
    )
    return ListReport(page, client.counts())
