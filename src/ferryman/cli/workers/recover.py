"""`ferryman workers recover`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from ferryman import SweepStaleWorkersOptions
from ferryman.cli.clean import clean_line
from ferryman.cli.commands import confirm, rows_command, yes_option
from ferryman.cli.times import span
from ferryman.cli.unlock import WARNING
from ferryman.cli.workers.rows import counted, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from rich.console import RenderableType

    from ferryman import Recovery, SweepStaleWorkersResult, SyncClient, UnregisteredWorker

_STARTED = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, slots=True)
class RecoverReport:
    """What a sweep did, or would do."""

    result: SweepStaleWorkersResult
    is_dry_run: bool

    @property
    def exit_code(self) -> int:
        """1 when another sweep was under way."""
        return 1 if self.result.is_already_running else 0

    def document(self) -> object:
        """Everything."""
        return {**asdict(self.result), "dry_run": self.is_dry_run}

    def lines(self) -> Iterator[RenderableType]:
        """A sentence, and a table of the jobs."""
        result = self.result
        if result.is_already_running:
            yield "Another sweep is under way, so this one left the rest to it. Try again in a moment."
        elif not result.worker_ids and not result.recoveries:
            yield "No dead worker was found."
        if result.worker_ids:
            yield f"Dead: {', '.join(map(clean_line, result.worker_ids))}."
        if result.recoveries:
            verb = "Would recover" if self.is_dry_run else "Recovered"
            yield f"{verb} {counted(len(result.recoveries), 'job')}:\n"
            yield plain_table([_cells(recovery) for recovery in result.recoveries])
        elif result.worker_ids and not result.skipped_job_ids and not result.unreadable_job_ids:
            yield "They held no job that could be taken away."
        if result.skipped_job_ids:
            yield f"Left locked, as hooks decided: {_ids(result.skipped_job_ids)}."
        if result.unreadable_job_ids:
            yield f"Left locked, because PostgreSQL refused to change them: {_ids(result.unreadable_job_ids)}."
        if result.unregistered:
            yield (
                "\nThese workers never registered, so that nothing says whether they are alive. They were left alone. "
                "Recover the jobs of a dead one with --worker ID, or of all with --unregistered-lock-timeout SPAN:\n"
            )
            yield plain_table([_unregistered_cells(worker) for worker in result.unregistered])


def _ids(job_ids: Sequence[int]) -> str:
    return ", ".join(f"job {job_id}" for job_id in job_ids)


def _unregistered_cells(worker: UnregisteredWorker) -> Mapping[str, str]:
    more = worker.jobs - len(worker.job_ids)
    return {
        "worker": clean_line(worker.worker_id),
        "jobs": ", ".join(map(str, worker.job_ids)) + (f" and {more} more" if more else ""),
        "last claim": "-" if worker.seconds is None else f"{worker.seconds:,.0f} s ago",
    }


def _cells(recovery: Recovery) -> Mapping[str, str]:
    return {
        "job": str(recovery.job_id),
        "task": clean_line(recovery.task_identifier),
        "decision": recovery.decision,
        "attempt": str(recovery.attempt),
        "had started": _STARTED[recovery.started],
        "worker": clean_line(recovery.worker_id),
        "reason": recovery.reason,
    }


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say who is dead, and what would become of their jobs.")
@click.option("--threshold", type=span, metavar="SPAN", help="Dead is who was silent for longer.  [default: 5m]")
@click.option(
    "--unregistered-lock-timeout",
    type=span,
    metavar="SPAN",
    help="Recover jobs of workers that never registered and have claimed nothing for this long.  [default: never]",
)
@click.option("--delay", type=span, metavar="SPAN", help="How long recovered jobs wait.  [default: 30s]")
@click.option(
    "--worker", "worker_ids", multiple=True, metavar="ID", help="This worker is certainly dead, whoever it is."
)
@yes_option
@rows_command
def recover(
    client: SyncClient,
    *,
    dry_run: bool,
    threshold: timedelta | None,
    unregistered_lock_timeout: timedelta | None,
    delay: timedelta | None,
    worker_ids: tuple[str, ...],
    yes: bool,
) -> RecoverReport:
    """Find dead workers and give their jobs back.

    Workers do this by themselves while any of them runs with recovery. A silent worker is watched until it has missed
    two of its heartbeats, which takes a minute by default: after an outage, all heartbeats are old. With --worker only
    the named ones are taken for dead, at once, whatever signs of life they give.

    \b
    Example:
      ferryman workers recover --dry-run
      ferryman workers recover --threshold 1m
      ferryman workers recover --worker worker-0f3a9c
    """
    if worker_ids and not dry_run:
        confirm(f"{', '.join(map(clean_line, worker_ids))}: {WARNING}", "Recover their jobs?", yes=yes)
    options = SweepStaleWorkersOptions(
        sweep_threshold=threshold,
        recovery_delay=delay,
        unregistered_lock_timeout=unregistered_lock_timeout,
        dry_run=dry_run,
        worker_ids=worker_ids or None,
    )
    return RecoverReport(client.sweep_stale_workers(options), dry_run)
