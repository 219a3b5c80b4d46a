"""Telling hooks and the log what became of the jobs of dead workers, once the database holds it."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from ferryman.database.steps import Emit
from ferryman.hooks import FailureReason, JobInterrupted, JobPermanentlyFail, WorkerRecovered
from ferryman.hooks.reporting import OBSERVER_LIMIT
from ferryman.queries.job_rows import job_from_row
from ferryman.queries.sweep import read_interrupted_jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.jobs import Job
    from ferryman.recovery.sweep_results import SweepStaleWorkersResult

logger = logging.getLogger("ferryman.recovery")

MOST_LISTED = 10


def jobs_to_tell_of(hooks: HookRegistry, job_ids: Sequence[int]) -> Steps[Mapping[int, Job]]:
    """The jobs as the dead workers hold them, if anybody wants to hear of them."""
    if not job_ids or not (hooks.wants(JobInterrupted) or hooks.wants(JobPermanentlyFail)):
        return {}
    rows = yield read_interrupted_jobs(job_ids)
    return {job.id: job for job in map(job_from_row, rows)}


def tell(hooks: HookRegistry, events: Iterable[Observer]) -> Steps[None]:
    """Tell of events one after the other, each within a limit. Nothing may be locked."""
    for event in events:
        yield Emit(hooks, event, OBSERVER_LIMIT)


def job_events(rows: Sequence[Row], jobs: Mapping[int, Job]) -> Iterator[Observer]:
    """The events of each job that was taken away; rows come from `recover_jobs.sql`."""
    if not jobs:
        return
    for row in rows:
        job, worker_id, *_, is_over, error = jobs[row[0]], *row[1:]
        yield JobInterrupted(job=job, worker_id=worker_id, reason=FailureReason.WORKER_CRASHED)
        if is_over:
            yield JobPermanentlyFail(job=job, worker_id=worker_id, error=error or "")


def sweep_events(
    hooks: HookRegistry, recovered_by: str, result: SweepStaleWorkersResult, *, still_holding: Collection[str] = ()
) -> Iterator[Observer]:
    """Log a sweep that recovered something, or let go of a worker, and make its event.

    still_holding: dead workers whose jobs hooks left locked
    """
    if result.skipped_job_ids:
        logger.warning(
            "left %d jobs of dead workers %s locked, as JobRecovery hooks decided: %s",
            len(result.skipped_job_ids),
            ", ".join(sorted(still_holding)),
            _listed(result.skipped_job_ids),
            extra={"event": "jobs_skipped", "count": len(result.skipped_job_ids)},
        )
    holding = {*still_holding} - {recovery.worker_id for recovery in result.recoveries}
    recovered_workers = tuple(worker_id for worker_id in result.worker_ids if worker_id not in holding)
    if not result.recoveries and not recovered_workers:
        return
    words = Counter(recovery.decision for recovery in result.recoveries)
    listed = ", ".join(f"{count} {word}" for word, count in words.items()) or "they held none"
    names = ", ".join(recovered_workers) or "none"
    logger.warning(
        "recovered %s (%s); dead workers: %s",
        "1 job" if result.recovered_count == 1 else f"{result.recovered_count:,} jobs",
        listed,
        names,
        extra={"event": "jobs_recovered", "count": result.recovered_count},
    )
    if hooks.wants(WorkerRecovered):
        yield WorkerRecovered(
            worker_id=recovered_by,
            dead_worker_ids=recovered_workers,
            jobs_recovered=result.recovered_count,
        )


def _listed(job_ids: Sequence[int]) -> str:
    more = len(job_ids) - MOST_LISTED
    return ", ".join(map(str, job_ids[:MOST_LISTED])) + (f" and {more} more" if more > 0 else "")
