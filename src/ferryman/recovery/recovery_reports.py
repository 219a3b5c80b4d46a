"""Reports recovered jobs to hooks, the log and a tracing library, once the database has stored the recovery."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Self

import msgspec

from ferryman.database.steps import Emit
from ferryman.far_times import FarTime
from ferryman.hooks import FailureReason, JobInterrupted, JobPermanentlyFail, WorkerRecovered
from ferryman.hooks.reporting import OBSERVER_LIMIT
from ferryman.queries.job_rows import job_from_row
from ferryman.queries.sweep import read_interrupted_jobs
from ferryman.traces import with_died

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.jobs import Job
    from ferryman.recovery.sweep_results import SweepStaleWorkersResult
    from ferryman.traces import Processing, Tracing

logger = logging.getLogger("ferryman.recovery")

MOST_LISTED = 10
LARGEST = 100_000
"""Characters of a payload. A larger one is not rewritten for the link to the attempt that died."""


def jobs_to_report(hooks: HookRegistry, job_ids: Sequence[int]) -> Steps[Mapping[int, Job]]:
    """Read the jobs as the dead workers hold them, if a hook wants their events."""
    if not job_ids or not (hooks.wants(JobInterrupted) or hooks.wants(JobPermanentlyFail)):
        return {}
    rows = yield read_interrupted_jobs(job_ids)
    return {job.id: job for job in map(job_from_row, rows)}


def report(hooks: HookRegistry, events: Iterable[Observer]) -> Steps[None]:
    """Report events to hooks one after the other, each within a limit. Call it while no row is locked."""
    for event in events:
        yield Emit(hooks, event, OBSERVER_LIMIT)


def job_events(rows: Sequence[Row], jobs: Mapping[int, Job]) -> Iterator[Observer]:
    """The events of each recovered job; rows come from `recover_jobs.sql`."""
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
    """Log a sweep that recovered jobs or removed dead workers, and make its event.

    still_holding: dead workers with jobs that hooks left locked
    """
    if result.skipped_job_ids:
        logger.warning(
            "%d jobs of dead workers %s stay locked, because JobRecovery hooks returned Skip: jobs %s",
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
    listed = ", ".join(f"{count} {word}" for word, count in words.items())
    logger.warning(
        "recovered %s of %s (%s)",
        "1 job" if result.recovered_count == 1 else f"{result.recovered_count:,} jobs",
        f"dead workers {', '.join(recovered_workers)}" if recovered_workers else "dead or silent workers",
        f"decisions: {listed}" if listed else "they held none",
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


class DeadAttempt(msgspec.Struct, frozen=True):
    """An attempt whose worker died."""

    job_id: int
    payload_json: str
    attempts: int
    max_attempts: int
    worker_id: str
    queue_name: str | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The attempt that holds this job."""
        return cls(job.id, job.payload_json, job.attempts, job.max_attempts, job.locked_by or "", job.queue_name)


class DeadAttempts(msgspec.Struct, frozen=True):
    """Spans of attempts whose workers died. They start before the recovery, so that the next attempts can link to them.

    spans: the spans, by job id
    payloads: payloads that name their span, by job id
    """

    spans: Mapping[int, Processing] = {}
    payloads: Mapping[int, str] = {}

    @classmethod
    def of(cls, tracing: Tracing, rows: Sequence[Row]) -> Self:
        """Start a span for each job of these rows. A failure is logged, and the jobs are recovered all the same."""
        spans: dict[int, Processing] = {}
        payloads: dict[int, str] = {}
        try:
            for job in map(job_from_row, rows):
                if job.locked_at is None or isinstance(job.locked_at, FarTime):
                    continue
                trace, spans[job.id] = tracing.died(job.task_identifier, DeadAttempt.of(job), job.locked_at)
                if trace is not None and len(job.payload_json) <= LARGEST:
                    payloads[job.id] = with_died(job.payload_json, trace)
        except Exception:
            logger.exception(
                "the tracing library raised an error about jobs of dead workers; recovering the jobs all the same, but "
                "spans of their interrupted attempts may be missing",
                extra={"event": "tracing_failed"},
            )
        return cls(spans, payloads)

    def payload_of(self, job_id: int) -> Mapping[str, str]:
        """The new payload of a job for `recover_jobs.sql`, if it changes."""
        return {"payload": self.payloads[job_id]} if job_id in self.payloads else {}

    def end(self, rows: Sequence[Row]) -> None:
        """End the spans of the recovered jobs; rows come from `recover_jobs.sql`. The others are dropped."""
        for job_id, worker_id, *_, reason, _, _ in rows:
            if job_id in self.spans:
                error = f"WorkerCrashed: worker {worker_id} died while it held this job ({reason})"
                try:
                    self.spans[job_id].end("died", error)
                except Exception:
                    logger.exception(
                        "the tracing library raised an error about job %d of a dead worker; the job is recovered, but "
                        "the span of its interrupted attempt may be missing",
                        job_id,
                        extra={"event": "tracing_failed", "job_id": job_id},
                    )
