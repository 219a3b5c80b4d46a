"""The commands `ferryman jobs add`, `complete`, `fail`, `reschedule`, `retry` and `remove`, which change jobs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from ferryman import JobKeyMode, JobSpec, JobState, RescheduleJobOptions
from ferryman.cli.arguments import ATTEMPTS, JOB_ID, MAX_ATTEMPTS, PRIORITY, json_payload, moment
from ferryman.cli.command_errors import NotFoundError
from ferryman.cli.common_options import database_command, rows_command
from ferryman.cli.output import Report, job_document, timestamp
from ferryman.cli.sanitize import clean_line
from ferryman.cli.worker.app_finder import find_app
from ferryman.errors import InvalidPayloadError, UnknownTaskError
from ferryman.health.wording import counted
from ferryman.jobs import NewJob
from ferryman.payloads import encode_payload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ferryman import App, Job, SyncClient

_MODES = [mode.value.replace("_", "-") for mode in JobKeyMode]
_ids_argument = click.argument("job_ids", metavar="ID...", type=JOB_ID, nargs=-1, required=True)


@click.command()
@click.argument("identifier")
@click.argument("payload", type=json_payload, required=False)
@click.option(
    "--app",
    type=find_app,
    metavar="MODULE[:APP]",
    help="Check the task and the payload against this application, and use the options that the task has there.",
)
@click.option("--queue", metavar="NAME", help="Queue of the job. Jobs of one queue run one at a time.")
@click.option(
    "--run-at", type=moment, metavar="TIME", help="Earliest start: ISO 8601 with a zone, +5m, +1h30m, or now."
)
@click.option("--max-attempts", type=MAX_ATTEMPTS, help="Attempts before the job fails for good.  [default: 25]")
@click.option("--key", metavar="KEY", help="Key of the job. At most one waiting job has a given key.")
@click.option(
    "--key-mode", type=click.Choice(_MODES), help="What to do if a waiting job has the key.  [default: replace]"
)
@click.option("--priority", type=PRIORITY, help="Jobs with a smaller number run first.  [default: 0]")
@click.option("--flag", "flags", multiple=True, metavar="FLAG", help="Flag of the job. Repeatable.")
@database_command
def add(
    client: SyncClient,
    *,
    identifier: str,
    payload: Any,
    app: App | None,
    queue: str | None,
    run_at: datetime | None,
    max_attempts: int | None,
    key: str | None,
    key_mode: str | None,
    priority: int | None,
    flags: tuple[str, ...],
) -> Report:
    """Add a job for any task.

    PAYLOAD is JSON, {} by default; `-` reads it from standard input. Without --app, neither the task nor the payload is
    checked. With --app it must be a task of the application, and the task's queue, max_attempts and other options apply
    unless you give others.

    \b
    Example:
      ferryman jobs add send_email '{"to": "a@b.c"}' --queue user:1 --run-at +5m
      ferryman jobs add send_email '{"to": "a@b.c"}' --app tasks
      ferryman jobs add import - < rows.json
    """
    if key_mode is not None and key is None:
        raise click.UsageError("--key-mode needs a key. Give the key with --key.")
    spec = JobSpec(
        queue_name=queue,
        run_at=run_at,
        max_attempts=max_attempts,
        job_key=key,
        job_key_mode=None if key_mode is None else JobKeyMode(key_mode.replace("-", "_")),
        priority=priority,
        flags=flags or None,
    )
    if app is None:
        job = client.add_raw_job(identifier, payload, spec)
    else:
        job = client.add_job(_checked(app, identifier, payload), spec)
    due = f", due {timestamp(job.run_at)}" if job.state is JobState.SCHEDULED else ""
    return Report(job_document(job), [f"Added job {job.id} for {clean_line(job.task_identifier)}{due}."])


def _checked(app: App, identifier: str, payload: Any) -> NewJob:
    """Return the job as the application itself would add it. Raise if no worker could run it."""
    payload_json = encode_payload({} if payload is None else payload)
    try:
        task = app.registry.find(identifier)
        task.decode(payload_json)
    except (InvalidPayloadError, UnknownTaskError) as error:
        raise type(error)(f"{error}. Nothing was added.") from None
    except Exception as error:
        raise InvalidPayloadError(
            f"the upgrade of task {task.identifier!r} fails with this payload: {type(error).__name__}: {error}. "
            "Nothing was added."
        ) from error
    return NewJob(task.identifier, payload_json, task.spec_for(payload_json))


@click.command()
@_ids_argument
@rows_command
def complete(client: SyncClient, *, job_ids: tuple[int, ...]) -> Report:
    """Delete jobs as if they had run.

    Skips jobs that are running. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs complete 41 42
    """
    changed = client.complete_jobs(job_ids)
    return _change_report("Completed", changed, _skipped(client, job_ids, changed))


@click.command()
@_ids_argument
@click.option("--reason", metavar="TEXT", help="Text for the last error of the jobs.")
@rows_command
def fail(client: SyncClient, *, job_ids: tuple[int, ...], reason: str | None) -> Report:
    """Fail jobs for good.

    Failed jobs stay in the table, with all attempts used, until you retry or delete them. Skips jobs that are running.
    Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs fail 42 --reason "customer left"
    """
    changed = client.permanently_fail_jobs(job_ids, reason)
    return _change_report("Failed", changed, _skipped(client, job_ids, changed))


@click.command()
@_ids_argument
@click.option(
    "--run-at", type=moment, metavar="TIME", help="Earliest start: ISO 8601 with a zone, +5m, +1h30m, or now."
)
@click.option("--priority", type=PRIORITY, help="Jobs with a smaller number run first.")
@click.option("--attempts", type=ATTEMPTS, help="Attempts used so far. 0 gives a failed job all its attempts back.")
@click.option("--max-attempts", type=MAX_ATTEMPTS, help="Attempts before the job fails for good.")
@rows_command
def reschedule(
    client: SyncClient,
    *,
    job_ids: tuple[int, ...],
    run_at: datetime | None,
    priority: int | None,
    attempts: int | None,
    max_attempts: int | None,
) -> Report:
    """Change the time, the priority or the attempts of jobs.

    Changes only what you give. Skips jobs that are running. A failed job stays failed unless you give it attempts;
    `ferryman jobs retry` runs it again. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs reschedule 42 --run-at now --attempts 0
    """
    options = RescheduleJobOptions(run_at=run_at, priority=priority, attempts=attempts, max_attempts=max_attempts)
    if options == RescheduleJobOptions():
        raise click.UsageError("nothing to change. Give --run-at, --priority, --attempts or --max-attempts.")
    changed = client.reschedule_jobs(job_ids, options)
    notes = [
        f"Job {job.id} will not run: it has failed and used {job.attempts} of {job.max_attempts} attempts. "
        f"`ferryman jobs retry {job.id}` runs it again."
        for job in changed
        if job.state is JobState.FAILED
    ]
    return _change_report("Rescheduled", changed, _skipped(client, job_ids, changed), notes)


@click.command()
@click.argument("job_ids", metavar="[ID...]", type=JOB_ID, nargs=-1)
@click.option("--task", metavar="IDENTIFIER", help="Retry all failed jobs of this task.")
@click.option("--state", type=click.Choice([JobState.FAILED.value]), help="Retry all failed jobs, or those of --task.")
@rows_command
def retry(client: SyncClient, *, job_ids: tuple[int, ...], task: str | None, state: str | None) -> Report:
    """Run failed jobs again.

    The jobs keep their ids and are due now, as if they were new: attempts and crashes count from zero. Skips jobs that
    have not failed. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs retry 42 43
      ferryman jobs retry --task send_email --state failed
    """
    if bool(job_ids) == (task is not None or state is not None):
        raise click.UsageError("which jobs? Give their ids, or --task, or --state failed.")
    if not job_ids:
        return _change_report("Retrying", client.retry_jobs(task=task), [])
    changed = client.retry_jobs(job_ids)
    return _change_report("Retrying", changed, _skipped(client, job_ids, changed, failed_only=True))


@click.command()
@click.argument("key")
@rows_command
def remove(client: SyncClient, *, key: str) -> Report:
    """Remove the job with this key.

    A job that is running finishes, but loses its key and is not retried.

    \b
    Example:
      ferryman jobs remove invoice:1007
    """
    job = client.remove_job(key)
    if job is None:
        raise NotFoundError(f"no job has the key {key!r}; nothing was changed.")
    if job.locked_by is None:
        line = f"Removed job {job.id}."
    else:
        worker = clean_line(job.locked_by)
        line = f"Job {job.id} is running on worker {worker} and will finish. It lost its key and will not be retried."
    return Report(job_document(job), [line])


@dataclass(frozen=True, slots=True)
class _Skipped:
    """A job that was not changed. reason: missing, running, not failed or changed"""

    id: int
    reason: str
    locked_by: str | None = None

    def line(self) -> str:
        match self.reason:
            case "missing":
                return f"Skipped {self.id}: there is no such job. It was completed or removed, or never existed."
            case "running":
                return f"Skipped {self.id}: worker {clean_line(self.locked_by or '')} is running it."
            case "not failed":
                return f"Skipped {self.id}: it has not failed for good, so it needs no retry."
            case _:
                return f"Skipped {self.id}: it was running until a moment ago. Try again."


def _skipped(
    client: SyncClient, wanted: Sequence[int], changed: Sequence[Job], *, failed_only: bool = False
) -> list[_Skipped]:
    """Find out why jobs are missing from `changed`.

    failed_only: True if the command changes only failed jobs
    """
    left = dict.fromkeys(wanted) | {job.id: job for job in changed}
    return [
        _why_skipped(job_id, client.get_job(job_id), failed_only=failed_only)
        for job_id, job in left.items()
        if job is None
    ]


def _why_skipped(job_id: int, job: Job | None, *, failed_only: bool) -> _Skipped:
    """Return why a job was not changed, judged by its state now, a moment after the change."""
    if job is None:
        return _Skipped(job_id, "missing")
    if failed_only and job.locked_by is None and job.state is not JobState.FAILED:
        return _Skipped(job_id, "not failed")
    return _Skipped(job_id, "changed" if job.locked_by is None else "running", job.locked_by)


def _change_report(verb: str, changed: Sequence[Job], skipped: Sequence[_Skipped], notes: Sequence[str] = ()) -> Report:
    """Report jobs that were changed and jobs that were not. notes: what else the reader should know"""
    document = {"jobs": [job_document(job) for job in changed], "skipped": [asdict(item) for item in skipped]}
    return Report(document, _change_lines(verb, changed, skipped, notes), exit_code=0 if changed else 1)


def _change_lines(
    verb: str, changed: Sequence[Job], skipped: Sequence[_Skipped], notes: Sequence[str]
) -> Iterator[str]:
    if changed:
        yield f"{verb} {counted(len(changed), 'job')}: {', '.join(str(job.id) for job in changed)}."
    yield from notes
    if not changed and not skipped:
        yield "There are no such jobs; nothing was changed."
    yield from (item.line() for item in skipped)
