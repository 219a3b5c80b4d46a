"""The commands `ferryman workers list`, `recover` and `unlock`: they show workers, and free jobs of dead ones."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ferryman import SweepStaleWorkersOptions
from ferryman.cli.arguments import span
from ferryman.cli.common_options import confirm, rows_command, yes_option
from ferryman.cli.output import Report, rows_table, text_or_dash, timestamp
from ferryman.cli.sanitize import clean_line
from ferryman.health.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from ferryman import (
        ActiveWorker,
        Job,
        LostWorker,
        Recovery,
        SweepStaleWorkersResult,
        SyncClient,
        UnregisteredWorker,
    )

UNLOCK_PAGE_SIZE = 10_000
DEATH_WARNING = (
    "Other workers may claim their jobs at once. A worker that is still alive continues its jobs, so they would run "
    "twice: make sure that these processes have ended."
)
_HAD_STARTED = {True: "yes", False: "no", None: "unknown"}


@click.command("list")
@click.option(
    "--threshold",
    type=span,
    default="5m",
    show_default=True,
    metavar="SPAN",
    help="Show a worker as stale after this long without a heartbeat.",
)
@rows_command
def list_workers(client: SyncClient, *, threshold: timedelta) -> Report:
    """List registered workers, and lost ones.

    Only workers with recovery register: Ferryman's unless it is turned off, and Rust's if it is turned on. A worker
    whose session is lost was killed, or lost its connection a moment ago. Times are in UTC.

    \b
    Example:
      ferryman workers list --threshold 90s
    """
    active, lost = client.list_active_workers(threshold), client.list_lost_workers()
    document = {"active": [*map(_in_utc, active)], "lost": [*map(_in_utc, lost)]}
    return Report(document, _worker_lines(active, lost))


def _in_utc(worker: ActiveWorker | LostWorker) -> Mapping[str, Any]:
    fields = asdict(worker)
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in fields.items()}


def _worker_lines(active: Sequence[ActiveWorker], lost: Sequence[LostWorker]) -> Iterator[RenderableType]:
    if active:
        yield rows_table([_active_cells(worker) for worker in active])
    else:
        yield "No worker is registered. Workers without recovery, and Node's, do not register."
    if lost:
        yield Text("\nlost workers, newest first", "bold")
        yield rows_table([_lost_cells(worker) for worker in lost])


def _active_cells(worker: ActiveWorker) -> Mapping[str, str | Text]:
    tasks = worker.metadata.get("tasks")
    return {
        "worker": clean_line(worker.worker_id),
        "state": _state(worker),
        "last heartbeat": timestamp(worker.last_heartbeat_at),
        "started at": timestamp(worker.started_at),
        "place": _place(worker.metadata),
        "tasks": str(len(tasks)) if isinstance(tasks, list) else "-",
    }


def _state(worker: ActiveWorker) -> Text:
    if worker.is_session_lost:
        return Text("session lost", "red")
    return Text("stale", "red") if worker.is_stale else Text("alive", "green")


def _lost_cells(worker: LostWorker) -> Mapping[str, str | Text]:
    return {
        "worker": clean_line(worker.worker_id),
        "reason": clean_line(worker.reason),
        "noticed at": timestamp(worker.noticed_at),
        "last heartbeat": timestamp(worker.last_heartbeat_at),
        "place": _place(worker.metadata),
        "recovered": counted(worker.recovered_jobs, "job"),
    }


def _place(metadata: Mapping[str, Any]) -> str:
    """Return the host and the process id of a worker, as far as it has stored them."""
    known = [str(metadata[name]) for name in ("host", "pid") if metadata.get(name) is not None]
    return text_or_dash(" ".join(known))


@click.command()
@click.option("--dry-run", is_flag=True, help="Show dead workers and what would happen to their jobs; change nothing.")
@click.option(
    "--threshold",
    type=span,
    metavar="SPAN",
    help="Treat a worker as dead after this long without a heartbeat.  [default: 5m]",
)
@click.option(
    "--unregistered-lock-timeout",
    type=span,
    metavar="SPAN",
    help="Recover the jobs of workers that never registered and claimed nothing for this long.  [default: never]",
)
@click.option(
    "--delay", type=span, metavar="SPAN", help="How long recovered jobs wait before they run.  [default: 30s]"
)
@click.option(
    "--worker",
    "worker_ids",
    multiple=True,
    metavar="ID",
    help="Recover this worker's jobs now, even if it still sends heartbeats. Repeatable.",
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
) -> Report:
    """Find dead workers and recover their jobs.

    Workers with recovery do this by themselves. A silent worker is watched until it has missed two of its heartbeats,
    which takes a minute by default: after an outage, all heartbeats are old. With --worker, only the workers that you
    name are declared dead, at once.

    \b
    Example:
      ferryman workers recover --dry-run
      ferryman workers recover --threshold 1m
      ferryman workers recover --worker worker-0f3a9c
    """
    if worker_ids and not dry_run:
        confirm(f"{', '.join(map(clean_line, worker_ids))}: {DEATH_WARNING}", "Recover their jobs?", yes=yes)
    options = SweepStaleWorkersOptions(
        sweep_threshold=threshold,
        recovery_delay=delay,
        unregistered_lock_timeout=unregistered_lock_timeout,
        dry_run=dry_run,
        worker_ids=worker_ids or None,
    )
    result = client.sweep_stale_workers(options)
    document = {**asdict(result), "dry_run": dry_run}
    return Report(document, _sweep_lines(result, dry_run=dry_run), exit_code=1 if result.is_already_running else 0)


def _sweep_lines(result: SweepStaleWorkersResult, *, dry_run: bool) -> Iterator[RenderableType]:
    """The lines that people read: what was recovered, with tables of jobs, and of workers that were left alone."""
    if result.is_already_running:
        yield "Another sweep is running, so this one stopped. Try again in a moment."
    elif not result.worker_ids and not result.recoveries:
        yield "No dead worker was found."
    if result.worker_ids:
        yield f"Dead: {', '.join(map(clean_line, result.worker_ids))}."
    if result.recoveries:
        verb = "Would recover" if dry_run else "Recovered"
        yield f"{verb} {counted(len(result.recoveries), 'job')}:\n"
        yield rows_table([_recovery_cells(recovery) for recovery in result.recoveries])
    elif result.worker_ids and not result.skipped_job_ids and not result.unreadable_job_ids:
        yield "They held no job that could be recovered."
    if result.skipped_job_ids:
        yield f"Left locked by a hook: {_job_names(result.skipped_job_ids)}."
    if result.unreadable_job_ids:
        yield f"Left locked, because PostgreSQL rejected the change: {_job_names(result.unreadable_job_ids)}."
    if result.unregistered:
        yield (
            "\nThese workers never registered, so it is unknown whether they are alive. Their jobs were not changed. "
            "Recover the jobs of a dead worker with --worker ID, or of all with --unregistered-lock-timeout SPAN:\n"
        )
        yield rows_table([_unregistered_cells(worker) for worker in result.unregistered])


def _job_names(job_ids: Sequence[int]) -> str:
    return ", ".join(f"job {job_id}" for job_id in job_ids)


def _recovery_cells(recovery: Recovery) -> Mapping[str, str]:
    return {
        "job": str(recovery.job_id),
        "task": clean_line(recovery.task_identifier),
        "decision": recovery.decision,
        "attempt": str(recovery.attempt),
        "had started": _HAD_STARTED[recovery.started],
        "worker": clean_line(recovery.worker_id),
        "reason": recovery.reason,
    }


def _unregistered_cells(worker: UnregisteredWorker) -> Mapping[str, str]:
    more = worker.jobs - len(worker.job_ids)
    return {
        "worker": clean_line(worker.worker_id),
        "jobs": ", ".join(map(str, worker.job_ids)) + (f" and {more} more" if more else ""),
        "last claim": "-" if worker.seconds is None else f"{worker.seconds:,.0f} s ago",
    }


@click.command()
@click.argument("worker_ids", metavar="WORKER_ID...", nargs=-1, required=True)
@yes_option
@rows_command
def unlock(client: SyncClient, *, worker_ids: tuple[str, ...], yes: bool) -> Report:
    """Release all locks of workers that you know are dead.

    WORKER_ID is the last column of `ferryman jobs list --state running`. A worker that is still alive would continue
    its jobs while other workers run them too.

    \b
    Example:
      ferryman unlock worker-0f3a9c
    """
    held = _jobs_held_by(client, worker_ids)
    described = [f"{clean_line(worker)} holds {_listed(ids) if ids else 'no job'}." for worker, ids in held.items()]
    confirm("\n".join([*described, DEATH_WARNING]), "Unlock?", yes=yes)
    client.force_unlock_workers(worker_ids)
    document = {"workers": [{"id": worker, "job_ids": ids} for worker, ids in held.items()]}
    return Report(document, _unlock_lines(held), exit_code=0 if any(held.values()) else 1)


workers_unlock = copy(unlock)
"""`ferryman workers unlock`, the same command under another name."""
workers_unlock.help = (unlock.help or "").replace("ferryman unlock", "ferryman workers unlock")


def _jobs_held_by(client: SyncClient, worker_ids: Sequence[str]) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {worker: [] for worker in worker_ids}
    for job in _running_jobs(client):
        if job.locked_by in held:
            held[job.locked_by].append(job.id)
    return held


def _running_jobs(client: SyncClient) -> Iterator[Job]:
    after: int | None = 0
    while after is not None:
        page = client.list_jobs(state="running", limit=UNLOCK_PAGE_SIZE, after=after)
        yield from page.jobs
        after = page.next_after


def _unlock_lines(held: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for worker, ids in held.items():
        if ids:
            yield f"Unlocked {clean_line(worker)}: {_listed(ids)} may be claimed again."
        else:
            yield f"{clean_line(worker)} held no job. Queues that it had locked are free now."


def _listed(ids: Sequence[int]) -> str:
    return f"{'job' if len(ids) == 1 else 'jobs'} {', '.join(map(str, ids))}"
