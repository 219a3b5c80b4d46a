"""`ferryman jobs show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.commands import database_command
from ferryman.cli.failures import NotFoundError
from ferryman.cli.job_form import job_document
from ferryman.cli.tables import facts_lines, styled_state, text_or_dash, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from ferryman import Job, SyncClient


@dataclass(frozen=True, slots=True)
class JobReport:
    """Everything about a job."""

    job: Job
    exit_code: int = 0

    def document(self) -> object:
        """Every field."""
        return job_document(self.job)

    def lines(self) -> Iterator[RenderableType]:
        """The short fields in a table, then the payload and the last error in full."""
        yield facts_lines(_facts(self.job))
        yield Text("\npayload", "bold")
        yield Text(_indented(self.job.payload_json))
        if self.job.last_error is not None:
            yield Text("\nlast error", "bold")
            yield Text(clean_lines(self.job.last_error))


def _facts(job: Job) -> dict[str, str | Text]:
    return {
        "id": str(job.id),
        "task": clean_line(job.task_identifier) or "- (the row of the task was deleted)",
        "state": styled_state(job),
        "queue": text_or_dash(job.queue_name),
        "key": text_or_dash(job.key),
        "priority": str(job.priority),
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "flags": ", ".join(map(clean_line, job.flags)) or "-",
        "run at": timestamp(job.run_at),
        "locked by": text_or_dash(job.locked_by),
        "locked at": timestamp(job.locked_at),
        "created at": timestamp(job.created_at),
        "updated at": timestamp(job.updated_at),
        "revision": str(job.revision),
    }


def _indented(payload: str) -> str:
    try:
        return clean_lines(msgspec.json.format(payload, indent=2))
    except (msgspec.DecodeError, RecursionError):
        return clean_lines(payload)  # PostgreSQL took it, so it is shown as it stands


@click.command()
@click.argument("job_id", metavar="ID", type=int)
@database_command
def show(client: SyncClient, *, job_id: int) -> JobReport:
    """Show everything about a job.

    \b
    Example:
      ferryman jobs show 42
    """
    job = client.get_job(job_id)
    if job is None:
        raise NotFoundError(f"no job has the id {job_id}: it is done, was removed, or never existed.")
    return JobReport(job)
