"""Sweeps once: finds dead workers and recovers their jobs.

Each batch is a transaction: it takes the sweep lock, checks that the workers are still dead, locks the rows of the
jobs, reads what is known about them, and carries out the decisions. Hooks are asked between two such transactions,
while nothing is locked; the second one starts from what is true by then. So a slow hook delays no other session, and a
sweep that stops half-way has done some batches whole and left the rest for the next one. Events are reported to hooks
once everything is written.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferryman.database.failures import DATA_ERRORS, message_of, sqlstate_of
from ferryman.database.steps import Commit, Rollback, Transaction, Wait
from ferryman.errors import DatabaseError, FerrymanError
from ferryman.queries.advisory_locks import SWEEP_LOCK_CLASS
from ferryman.queries.jobs import wake_workers
from ferryman.queries.sweep import (
    find_next_interrupted_job,
    find_orphan_holders,
    find_silent_workers,
    forget_dead_workers,
    read_interrupted_jobs,
    recover_jobs,
    take_recovery_lock,
)
from ferryman.recovery.crashes import DeadWorker
from ferryman.recovery.recovery_reports import DeadAttempts, job_events, jobs_to_report, report, sweep_events
from ferryman.recovery.silence_check import still_silent
from ferryman.recovery.sweep_batch import ask_hooks, lock_batch
from ferryman.recovery.sweep_plan import SweepProgress
from ferryman.recovery.sweep_results import (
    Recovery,
    SweepStaleWorkersResult,
    UnregisteredWorker,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.recovery.crashes import CrashFacts, Decision
    from ferryman.recovery.observer import Dead
    from ferryman.recovery.sweep_batch import Answers, SweepBatch
    from ferryman.recovery.sweep_plan import Sweep

LOCK_ATTEMPTS = 20
LOCK_PAUSE_SECONDS = 0.1

logger = logging.getLogger("ferryman.recovery")


def sweep_once(sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
    """Sweep, and report it to hooks. If another sweep of this schema is running, do nothing (`is_already_running`)."""
    progress = SweepProgress()
    try:
        result = yield from sweep_into(progress, sweep)
    except FerrymanError:
        yield from report(sweep.hooks, progress.events)
        raise
    yield from report(sweep.hooks, progress.events)
    return result


def sweep_into(progress: SweepProgress, sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
    """Like `sweep_once`, but leave the events to the caller, even if the sweep stops half-way."""
    if not (yield from _begin(sweep)):
        return SweepStaleWorkersResult(is_already_running=True)
    workers, progress.unregistered = yield from _find_workers(sweep)
    if sweep.is_by_hand and any(worker.beat is not None for worker in workers):
        yield Rollback()
        beats = {worker.id: worker.beat for worker in workers if worker.beat is not None}
        silent = yield from still_silent(beats, sweep.clock, notes=not sweep.options.dry_run)
        workers = [worker for worker in workers if worker.beat is None or worker.id in silent]
        if not (yield from _begin_again(sweep)):
            return SweepStaleWorkersResult(is_already_running=True)
    if sweep.options.dry_run:
        found = yield from _foreseen(sweep, workers, progress.unregistered)
        return found
    is_open = True  # the transaction of the search is used for the first batch
    while workers:
        if not is_open and not (yield from _begin_again(sweep)):
            progress.was_overtaken = True
            break
        is_open = False
        is_last = yield from _recover_batch_or_each(sweep, workers, progress)
        if is_last:
            break
    yield Commit()
    result = progress.result()
    progress.events += sweep_events(sweep.hooks, sweep.recovered_by, result, still_holding={*progress.skipped.values()})
    return result


def _begin(sweep: Sweep) -> Steps[bool]:
    yield Transaction()
    [(is_alone,)] = yield take_recovery_lock(SWEEP_LOCK_CLASS, sweep.schema_name)
    if not is_alone:
        yield Rollback()
    return bool(is_alone)


def _begin_again(sweep: Sweep) -> Steps[bool]:
    """Take the sweep lock again. Another sweep may have come in between; if it finds nothing, it does not take long."""
    for _ in range(LOCK_ATTEMPTS):
        is_alone = yield from _begin(sweep)
        if is_alone:
            return True
        yield Wait(LOCK_PAUSE_SECONDS)
    return False


def _find_workers(sweep: Sweep) -> Steps[tuple[Sequence[DeadWorker], Sequence[UnregisteredWorker]]]:
    """Find the dead workers, and holders of jobs that never registered, which may be alive."""
    named, settings = sweep.options.worker_ids, sweep.settings
    silent = yield find_silent_workers(
        threshold=sweep.threshold,
        claimed_threshold=settings.claimed_threshold.total_seconds(),
        multiplier=settings.resilient_sweep_threshold_multiplier,
        flags=settings.resilient_job_flags,
        observed=None if sweep.observed is None else [_observation(dead) for dead in sweep.observed],
        named=named,
    )
    orphans: Sequence[Row] = ()
    if sweep.finds_orphans or named is not None:
        orphans = yield find_orphan_holders(
            threshold=sweep.threshold,
            unregistered_timeout=sweep.unregistered_timeout,
            multiplier=settings.resilient_sweep_threshold_multiplier,
            flags=settings.resilient_job_flags,
            named=named,
        )
    found = [DeadWorker(*row) for row in silent]
    unregistered: list[UnregisteredWorker] = []
    for worker_id, is_dead, reason, prefetches, policy, jobs, job_ids, seconds in orphans:
        if is_dead:
            found.append(DeadWorker(worker_id, reason, None, True, prefetches, policy))
        else:
            unregistered.append(
                UnregisteredWorker(worker_id=worker_id, jobs=jobs, job_ids=tuple(job_ids), seconds=seconds)
            )
    # The worker that sweeps is alive, even if its own heartbeats failed.
    return [worker for worker in found if worker.id != sweep.recovered_by], unregistered


def _observation(dead: Dead) -> Mapping[str, Any]:
    return {
        "worker_id": dead.worker_id,
        "last_heartbeat_at": dead.last_heartbeat_at.isoformat(),
        "silence": dead.silent_for,
        "is_session_lost": dead.reason == "session lost",
    }


def _recover_batch_or_each(sweep: Sweep, workers: Sequence[DeadWorker], progress: SweepProgress) -> Steps[bool]:
    """Recover the next jobs. If PostgreSQL rejects a value in one row, recover them one by one."""
    try:
        is_last = yield from _recover_batch(sweep, workers, progress)
    except DatabaseError as error:
        if not _is_about_data(error):
            raise
        yield Rollback()
    else:
        return is_last
    for _ in range(sweep.batch_size):
        is_last = yield from _recover_single(sweep, workers, progress)
        if is_last:
            return True
    return False


def _recover_single(sweep: Sweep, workers: Sequence[DeadWorker], progress: SweepProgress) -> Steps[bool]:
    """Recover the next job, or report it as unreadable."""
    if not (yield from _begin_again(sweep)):
        progress.was_overtaken = True
        return True
    try:
        is_last = yield from _recover_batch(replace(sweep, batch=1, tracing=None), workers, progress)
    except DatabaseError as error:
        if not _is_about_data(error):
            raise
        yield Rollback()
        rows = yield find_next_interrupted_job([worker.id for worker in workers], after=progress.after)
        for (job_id,) in rows:
            progress.after = job_id
            progress.unreadable.append(job_id)
            logger.error(  # noqa: TRY400 - what PostgreSQL says is all there is to say
                "could not recover job %d, because PostgreSQL rejects a value in its row; it stays locked until you "
                "correct the row, and other jobs are recovered: %s",
                job_id,
                message_of(error),
                extra={"event": "job_not_recovered", "job_id": job_id},
            )
        return not rows
    return is_last


def _is_about_data(error: DatabaseError) -> bool:
    """True if a value in a row caused the error, so that the other rows can still be recovered."""
    return (sqlstate_of(error) or "").startswith(DATA_ERRORS)


def _recover_batch(sweep: Sweep, workers: Sequence[DeadWorker], progress: SweepProgress) -> Steps[bool]:
    """Recover the next jobs in the open transaction. Returns True if they were the last."""
    batch = yield from lock_batch(sweep, workers, progress.after)
    answers: Answers | None = None
    if sweep.asks and batch.facts:
        answers = yield from ask_hooks(sweep, batch)
        if not (yield from _begin_again(sweep)):
            progress.was_overtaken = True
            return True
        batch = yield from lock_batch(sweep, workers, progress.after)

    decided = {facts.job_id: (facts, decision) for facts, decision in batch.decisions(sweep.rules, answers)}
    jobs = yield from jobs_to_report(sweep.hooks, [*decided])
    died = yield from _died(sweep, decided)
    rows: Sequence[Row] = ()
    if decided:
        documents = [
            {**decision.document(facts, batch.workers[facts.worker_id].reason), **died.payload_of(facts.job_id)}
            for facts, decision in decided.values()
        ]
        rows = yield recover_jobs(sweep.recovered_by, documents)
        yield wake_workers(len(rows))
    progress.recoveries += [_recovery(row) for row in rows]
    progress.skipped |= batch.skipped(answers or {})
    if batch.is_last:
        yield from _forget(batch, progress)
    else:
        progress.after = batch.facts[-1].job_id
    yield Commit()
    progress.events += job_events(rows, jobs)
    died.end(rows)
    return batch.is_last


def _died(sweep: Sweep, decided: Mapping[int, tuple[CrashFacts, Decision]]) -> Steps[DeadAttempts]:
    """The attempts that died, for a tracing library. Reads nothing without one."""
    if sweep.tracing is None or not decided:
        return DeadAttempts()
    rows = yield read_interrupted_jobs([job_id for job_id, (_, made) in decided.items() if made.started is not False])
    return DeadAttempts.of(sweep.tracing, rows)


def _forget(batch: SweepBatch, progress: SweepProgress) -> Steps[None]:
    """Remove dead workers that hold no job any more. Those that were only slow stay registered."""
    dead = [worker for worker in batch.workers.values() if worker.loses_all_jobs]
    progress.dead_worker_ids = tuple(worker.id for worker in dead)
    if not dead:
        return
    counts = Counter(recovery.worker_id for recovery in progress.recoveries)
    yield forget_dead_workers(
        [{"id": worker.id, "reason": worker.reason, "recovered_jobs": counts[worker.id]} for worker in dead]
    )


def _foreseen(
    sweep: Sweep, workers: Sequence[DeadWorker], unregistered: Sequence[UnregisteredWorker]
) -> Steps[SweepStaleWorkersResult]:
    """The result of a dry run: what a sweep would do if no hook decided otherwise."""
    recoveries: list[Recovery] = []
    after, is_last = 0, not workers
    while not is_last:
        batch = yield from lock_batch(sweep, workers, after)
        for facts, decision in batch.decisions(sweep.rules, None):
            recoveries.append(_foreseen_recovery(facts, decision, batch.workers[facts.worker_id]))
        is_last, after = batch.is_last, batch.facts[-1].job_id if batch.facts else 0
    yield Rollback()
    worker_ids = tuple(worker.id for worker in workers if worker.loses_all_jobs)
    return SweepStaleWorkersResult(
        worker_ids=worker_ids, recoveries=tuple(recoveries), unregistered=tuple(unregistered)
    )


def _foreseen_recovery(facts: CrashFacts, decision: Decision, worker: DeadWorker) -> Recovery:
    return Recovery(
        job_id=facts.job_id,
        task_identifier=facts.task_identifier,
        worker_id=worker.id,
        attempt=facts.attempts,
        started=decision.started,
        decision="superseded" if facts.is_superseded else decision.word,
        reason=worker.reason,
    )


def _recovery(row: Row) -> Recovery:
    job_id, worker_id, task_identifier, attempt, started, decision, reason, *_ = row
    return Recovery(
        job_id=job_id,
        task_identifier=task_identifier,
        worker_id=worker_id,
        attempt=attempt,
        started=started,
        decision=decision,
        reason=reason,
    )
