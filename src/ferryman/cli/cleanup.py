"""`ferryman cleanup`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from ferryman import CleanupTask
from ferryman.cli.clean import clean_line
from ferryman.cli.commands import confirm, rows_command, yes_option
from ferryman.cli.times import span
from ferryman.health.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ferryman import Cleaned, SyncClient


def cleanup_task(name: str) -> CleanupTask:
    """The type of an argument: a clean-up as Node spells it, or in lower case and with hyphens."""
    try:
        return CleanupTask(name.upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(task.value for task in CleanupTask)
        raise click.BadParameter(f"{name!r} is not a clean-up task; there are: {known}.") from None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was deleted."""

    chosen: Sequence[CleanupTask]
    cleaned: Cleaned
    exit_code: int = 0

    def document(self) -> object:
        """Names of tasks and queues, and the number of failed jobs."""
        return asdict(self.cleaned)

    def lines(self) -> list[str]:
        """One line for each clean-up that was asked for."""
        return [self._told(task) for task in self.chosen]

    def _told(self, task: CleanupTask) -> str:
        match task:
            case CleanupTask.DELETE_PERMAFAILED_JOBS:
                return f"Deleted failed jobs: {self.cleaned.failed_jobs}"
            case CleanupTask.GC_JOB_QUEUES:
                return f"Deleted unused queues: {_listed(self.cleaned.queue_names)}"
            case CleanupTask.GC_TASK_IDENTIFIERS:
                return f"Deleted unused tasks: {_listed(self.cleaned.task_identifiers)}{_restart(self.cleaned)}"


@click.command()
@click.argument("tasks", metavar="[TASK]...", type=cleanup_task, nargs=-1)
@click.option("--keep", multiple=True, metavar="IDENTIFIER", help="A task not to delete; may be given more than once.")
@click.option("--older-than", type=span, metavar="SPAN", help="Delete only jobs that failed so long ago, as in 30d.")
@yes_option
@rows_command
def cleanup(
    client: SyncClient,
    *,
    tasks: tuple[CleanupTask, ...],
    keep: tuple[str, ...],
    older_than: timedelta | None,
    yes: bool,
) -> CleanupReport:
    """Clear away unused queues, unused tasks or failed jobs.

    Failed jobs are deleted with their payloads, after asking.

    TASK is GC_JOB_QUEUES (the default), GC_TASK_IDENTIFIERS or DELETE_PERMAFAILED_JOBS; gc-job-queues and so on mean
    the same. Node and Rust workers that are running do not see new jobs of a task that was deleted until they restart:
    name their tasks with --keep.

    \b
    Example:
      ferryman cleanup gc-job-queues delete-permafailed-jobs
      ferryman cleanup delete-permafailed-jobs --older-than 30d --yes
    """
    chosen = tuple(dict.fromkeys(tasks)) or (CleanupTask.GC_JOB_QUEUES,)
    if CleanupTask.DELETE_PERMAFAILED_JOBS in chosen and (failed := client.counts().failed):
        jobs = counted(failed, "failed job")
        which = jobs if older_than is None else f"those of {jobs} that failed so long ago"
        confirm(f"This deletes {which}, with the payloads. They cannot run again.", "Delete?", yes=yes)
    return CleanupReport(chosen, client.cleanup(chosen, keep_task_identifiers=keep, older_than=older_than))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(clean_line, names)) or "none"


def _restart(cleaned: Cleaned) -> str:
    return ". Restart Node and Rust workers that serve them." if cleaned.task_identifiers else ""
