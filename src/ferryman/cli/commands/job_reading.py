"""The commands `ferryman jobs list`, `show` and `counts`, which show jobs and change nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.text import Text

from ferryman import JobState
from ferryman.cli.arguments import JOB_ID, LARGEST_ID, MAX_PAGE_SIZE, WholeNumber
from ferryman.cli.command_errors import NotFoundError
from ferryman.cli.common_options import rows_command
from ferryman.cli.output import (
    Report,
    counts_line,
    facts_lines,
    job_document,
    jobs_table,
    styled_state,
    text_or_dash,
    timestamp,
)
from ferryman.cli.sanitize import clean_line, clean_lines
from ferryman.errors import SchemaMissingError
from ferryman.traces import without_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import Crash, Job, JobCounts, JobPage, JobProgress, SyncClient

PAGE_SIZE = 50
CHILD_DIED = "child process died"
"""The reason of a crash in which only the job's own child process died."""
_STARTED = {True: "while the job ran", False: "before the job started", None: "before or while the job ran"}


@click.command("list")
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--task", metavar="IDENTIFIER", help="Only jobs of this task.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--key", metavar="KEY", help="Only the job with this key.")
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="FLAG",
    help="Only jobs with this flag. Repeatable: only jobs with all of the flags.",
)
@click.option(
    "--limit", type=WholeNumber(1, MAX_PAGE_SIZE), default=PAGE_SIZE, show_default=True, help="Number of jobs to list."
)
@click.option("--after", type=WholeNumber(0, LARGEST_ID), metavar="ID", help="Only jobs with a greater id.")
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
) -> Report:
    """List jobs, oldest first.

    Completed jobs are not listed, because completing a job deletes it. Times are in UTC.

    \b
    Example:
      ferryman jobs list --state failed --task send_email
    """
    page = client.list_jobs(
        state=state, task=task, queue_name=queue, job_key=key, flags=flags or None, limit=limit, after=after
    )
    all_jobs = client.counts()
    document = {
        "jobs": [job_document(job) for job in page.jobs],
        "next_after": page.next_after,
        "counts": _counts_document(all_jobs),
    }
    return Report(document, _page_lines(page, all_jobs))


def _page_lines(page: JobPage, all_jobs: JobCounts) -> Iterator[RenderableType]:
    yield counts_line(all_jobs)
    yield ""
    yield jobs_table(page.jobs) if page.jobs else "No jobs to show."
    if page.next_after is not None:
        yield f"\nThere are more jobs. To see the next page, add --after {page.next_after}."


@click.command()
@rows_command
def counts(client: SyncClient) -> Report:
    """Count jobs by state.

    \b
    Example:
      ferryman jobs counts --json
    """
    found = client.counts()
    return Report(_counts_document(found), [counts_line(found)])


def _counts_document(found: JobCounts) -> dict[str, Any]:
    return {**asdict(found), "total": found.total}


@click.command()
@click.argument("job_id", metavar="ID", type=JOB_ID)
@rows_command
def show(client: SyncClient, *, job_id: int) -> Report:
    """Show everything about a job.

    \b
    Example:
      ferryman jobs show 42
    """
    job = client.get_job(job_id)
    if job is None:
        raise NotFoundError(f"no job has the id {job_id}: it was completed or removed, or never existed.")
    crashes: Sequence[Crash]
    try:
        crashes, progress = client.list_crashes(job_id), client.get_progress(job_id)
    except SchemaMissingError:
        crashes, progress = (), None  # Node's own schema and early schemas of Ferryman have no such tables
    document = {
        **job_document(job),
        "progress": None if progress is None else asdict(progress),
        "crashes": [asdict(crash) for crash in crashes],
    }
    return Report(document, _job_lines(job, crashes, progress))


def _job_lines(job: Job, crashes: Sequence[Crash], progress: JobProgress | None) -> Iterator[RenderableType]:
    """The lines that people read: short fields in a table, then the payload, the last error and the crashes in full."""
    yield facts_lines(_facts(job, progress))
    yield Text("\npayload", "bold")
    yield Text(_indented(without_trace(job.payload_json)))
    if job.last_error is not None:
        yield Text("\nlast error", "bold")
        yield Text(clean_lines(job.last_error))
    if crashes:
        yield Text("\ncrashes", "bold")
        yield from (_crash_line(crash) for crash in crashes)


def _facts(job: Job, progress: JobProgress | None) -> dict[str, str | Text]:
    return {
        "id": str(job.id),
        "task": clean_line(job.task_identifier) or "- (the row of the task was deleted)",
        "state": styled_state(job),
        **({} if progress is None else {"progress": _progress_cell(progress)}),
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


def _progress_cell(progress: JobProgress) -> str:
    message = "" if progress.message is None else f" {clean_line(progress.message)}"
    return f"{progress.fraction:.0%}{message}  (reported at {timestamp(progress.reported_at)})"


def _crash_line(crash: Crash) -> str:
    """Describe a crash: when, in which attempt, what died, why it counts as dead, and what happened to the job."""
    when = f"{timestamp(crash.noticed_at)}  attempt {crash.attempt}"
    if crash.reason == CHILD_DIED:
        return f"{when}: the job's child process died in worker {clean_line(crash.worker_id)}; {crash.decision}"
    return (
        f"{when}: {clean_line(crash.worker_id)} was lost "
        f"{_STARTED[crash.started]} ({crash.reason}); {crash.decision}, by {clean_line(crash.recovered_by)}"
    )


def _indented(payload: str) -> str:
    try:
        return clean_lines(msgspec.json.format(payload, indent=2))
    except (msgspec.DecodeError, RecursionError):
        return clean_lines(payload)  # PostgreSQL accepted it, so it is shown as it stands
