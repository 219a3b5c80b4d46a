"""The command `ferryman cleanup`, which deletes unused queues, unused tasks and failed jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ferryman import CleanupTask
from ferryman.cli.arguments import span
from ferryman.cli.common_options import confirm, rows_command, yes_option
from ferryman.cli.output import Report
from ferryman.cli.sanitize import clean_line
from ferryman.health.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ferryman import Cleaned, SyncClient


def cleanup_task(name: str) -> CleanupTask:
    """Read the name of a clean-up, as Node spells it or in lower case with hyphens."""
    try:
        return CleanupTask(name.upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(task.value for task in CleanupTask)
        raise click.BadParameter(f"{name!r} is not a clean-up task. The tasks are: {known}.") from None


@click.command()
@click.argument("tasks", metavar="[TASK]...", type=cleanup_task, nargs=-1)
@click.option("--keep", multiple=True, metavar="IDENTIFIER", help="Keep this task. Repeatable.")
@click.option(
    "--older-than", type=span, metavar="SPAN", help="Delete only jobs that failed longer ago than this, such as 30d."
)
@yes_option
@rows_command
def cleanup(
    client: SyncClient,
    *,
    tasks: tuple[CleanupTask, ...],
    keep: tuple[str, ...],
    older_than: timedelta | None,
    yes: bool,
) -> Report:
    """Delete unused queues, unused tasks or failed jobs.

    TASK is GC_JOB_QUEUES (the default), GC_TASK_IDENTIFIERS or DELETE_PERMAFAILED_JOBS, or the same in lower case with
    hyphens. Failed jobs are deleted with their payloads, after asking. A running Node or Rust worker sees no new jobs
    of a deleted task until it restarts: keep its tasks with --keep.

    \b
    Example:
      ferryman cleanup gc-job-queues delete-permafailed-jobs
      ferryman cleanup delete-permafailed-jobs --older-than 30d --yes
    """
    chosen = tuple(dict.fromkeys(tasks)) or (CleanupTask.GC_JOB_QUEUES,)
    if CleanupTask.DELETE_PERMAFAILED_JOBS in chosen and (failed := client.counts().failed):
        jobs = counted(failed, "failed job")
        which = jobs if older_than is None else f"those of {jobs} that failed longer ago than that"
        confirm(f"This deletes {which}, with the payloads. They cannot run again.", "Delete?", yes=yes)
    cleaned = client.cleanup(chosen, keep_task_identifiers=keep, older_than=older_than)
    return Report(asdict(cleaned), [_line(task, cleaned) for task in chosen])


def _line(task: CleanupTask, cleaned: Cleaned) -> str:
    match task:
        case CleanupTask.DELETE_PERMAFAILED_JOBS:
            return f"Deleted failed jobs: {cleaned.failed_jobs}"
        case CleanupTask.GC_JOB_QUEUES:
            return f"Deleted unused queues: {_listed(cleaned.queue_names)}"
        case CleanupTask.GC_TASK_IDENTIFIERS:
            restart = ". Restart Node and Rust workers that run them." if cleaned.task_identifiers else ""
            return f"Deleted unused tasks: {_listed(cleaned.task_identifiers)}{restart}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(clean_line, names)) or "none"
