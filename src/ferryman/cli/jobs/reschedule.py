"""`ferryman jobs reschedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferryman import JobState, RescheduleJobOptions
from ferryman.cli.commands import rows_command
from ferryman.cli.jobs.changes import ChangeReport, ids_argument
from ferryman.cli.numbers import ATTEMPTS, MAX_ATTEMPTS, PRIORITY
from ferryman.cli.times import moment

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman import SyncClient


@click.command()
@ids_argument
@click.option("--run-at", type=moment, metavar="TIME", help="ISO 8601 with a zone, +5m, +1h30m, or now.")
@click.option("--priority", type=PRIORITY, help="Smaller runs first.")
@click.option("--attempts", type=ATTEMPTS, help="Attempts made so far; 0 lets a failed job start afresh.")
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
) -> ChangeReport:
    """Change when, how soon and how often jobs run.

    What is not given stays as it is. Running jobs are skipped. A failed job stays failed: `ferryman jobs retry` lets it
    run again. Exit code 1: nothing was changed.

    \b
    Example:
      ferryman jobs reschedule 42 --run-at now --attempts 0
    """
    options = RescheduleJobOptions(run_at=run_at, priority=priority, attempts=attempts, max_attempts=max_attempts)
    if options == RescheduleJobOptions():
        raise click.UsageError("say what to change: --run-at, --priority, --attempts or --max-attempts.")
    changed = client.reschedule_jobs(job_ids, options)
    notes = [
        f"Job {job.id} will not run: it has failed, and has used {job.attempts} of {job.max_attempts} attempts. "
        f"`ferryman jobs retry {job.id}` lets it run again."
        for job in changed
        if job.state is JobState.FAILED
    ]
    return ChangeReport.of("Rescheduled", client, job_ids, changed, notes=notes)
