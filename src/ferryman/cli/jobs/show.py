"""`ferryman jobs show`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from ferryman.cli.clean import clean_line, clean_lines
from ferryman.cli.commands import rows_command
from ferryman.cli.failures import NotFoundError
from ferryman.cli.job_form import job_document
from ferryman.cli.numbers import JOB_ID
from ferryman.cli.tables import facts_lines, styled_state, text_or_dash, timestamp
from ferryman.errors import SchemaMissingError
from ferryman.traces import without_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import Crash, Job, JobProgress, SyncClient


@dataclass(frozen=True, slots=True)
class JobReport:
    """Everything about a job."""

    job: Job
    crashes: Sequence[Crash]
    progress: JobProgress | None
    exit_code: int = 0

    def document(self) -> object:
        """Every field, how far it is, and the crashes of its workers."""
        progress = None if self.progress is None else asdict(self.progress)
        crashes = [asdict(crash) for crash in self.crashes]
        return {**job_document(self.job), "progress": progress, "crashes": crashes}

    def lines(self) -> Iterator[RenderableType]:
        """The short fields in a table, then the payload and the last error in full."""
        yield facts_lines(_facts(self.job, self.progress))
        yield Text("\npayload", "bold")
        yield Text(_indented(without_trace(self.job.payload_json)))
        if self.job.last_error is not None:
            yield Text("\nlast error", "bold")
            yield Text(clean_lines(self.job.last_error))
        if self.crashes:
            yield Text("\ncrashes", "bold")
            yield from (_story(crash) for crash in self.crashes)


def _facts(job: Job, progress: JobProgress | None) -> dict[str, str | Text]:
    told = {} if progress is None else {"progress": _told(progress)}
    return {
        "id": str(job.id),
        "task": clean_line(job.task_identifier) or "- (the row of the task was deleted)",
        "state": styled_state(job),
        **told,
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
        **({} if job.trace_id is None else {"trace": job.trace_id}),
    }


def _told(progress: JobProgress) -> str:
    message = "" if progress.message is None else f" {clean_line(progress.message)}"
    return f"{progress.fraction:.0%}{message}  (told {timestamp(progress.reported_at)})"


CHILD_DIED = "child process died"
"""The reason of a crash that only a job's own child process has had."""
_STARTED = {True: "while it ran", False: "before it had started", None: "before or while it ran"}


def _story(crash: Crash) -> str:
    """When, in which attempt, who died and why we think so, and what was decided."""
    when = f"{timestamp(crash.noticed_at)}  attempt {crash.attempt}"
    if crash.reason == CHILD_DIED:
        return f"{when}: its child process died in worker {clean_line(crash.worker_id)}; {crash.decision}"
    return (
        f"{when}: {clean_line(crash.worker_id)} was lost "
        f"{_STARTED[crash.started]} ({crash.reason}); {crash.decision}, by {clean_line(crash.recovered_by)}"
    )


def _indented(payload: str) -> str:
    try:
        return clean_lines(msgspec.json.format(payload, indent=2))
    except (msgspec.DecodeError, RecursionError):
        return clean_lines(payload)  # PostgreSQL took it, so it is shown as it stands


@click.command()
@click.argument("job_id", metavar="ID", type=JOB_ID)
@rows_command
def show(client: SyncClient, *, job_id: int) -> JobReport:
    """Show everything about a job.

    \b
    Example:
      ferryman jobs show 42
    """
    job = client.get_job(job_id)
    if job is None:
        raise NotFoundError(f"no job has the id {job_id}: it is done, was removed, or never existed.")
    try:
        return JobReport(job, client.list_crashes(job_id), client.get_progress(job_id))
    except SchemaMissingError:
        return JobReport(job, (), None)  # a schema of Node's alone, or an older one of ours, holds neither
