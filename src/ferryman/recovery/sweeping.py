"""One pass that finds dead workers and takes their jobs away.

Each batch is a transaction of its own: it takes the lock of sweeps, checks that the workers are still dead, locks the
rows of the jobs, reads what is known about them, and carries out what was decided. Hooks are asked between two such
transactions, without any lock; the second one starts from what is true by then. So a slow hook delays nobody else, and
a sweep that ends half-way has done some batches whole and left the others for the next one. Hooks that only observe are
told when everything is written.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferryman.database.failures import DATA_ERRORS, message_of, sqlstate_of
from ferryman.database.steps import Commit, Decide, Rollback, Transaction, Wait
from ferryman.errors import DatabaseError, FerrymanError
from ferryman.hooks import FailureReason, JobRecovery
from ferryman.hooks.answers import JobRecoveryResult
from ferryman.queries import managing, recovering
from ferryman.queries.rows import job_from_row
from ferryman.recovery.by_hand import still_silent
from ferryman.recovery.crashes import CrashFacts, CrashRules, DeadWorker, decide, has_started
from ferryman.recovery.dead_attempts import DeadAttempts
from ferryman.recovery.recovery_reports import job_events, jobs_to_tell_of, sweep_events, tell
from ferryman.recovery.sweep_results import (
    Recovery,
    SweepStaleWorkersOptions,
    SweepStaleWorkersResult,
    UnregisteredWorker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.recovery.crashes import Decision
    from ferryman.recovery.observer import Dead
    from ferryman.recovery.settings import RecoverySettings
    from ferryman.traces import Tracing

    Answers = Mapping[tuple[int, int], JobRecoveryResult]
    """What hooks said, by job id and token."""

BATCH = 500
"""Jobs in a transaction."""
HOOK_BATCH = 50
"""Jobs that hooks are asked about before anything is done, so that slow ones do not hold up all."""
HOOK_SECONDS = 10.0
"""How long hooks may think about one job."""
PATIENCE_SECONDS = 30.0
"""After so long no more jobs of a batch are asked about: what was decided is carried out, the rest waits."""
LOCK_ATTEMPTS = 20
SECONDS_BETWEEN_ATTEMPTS = 0.1

logger = logging.getLogger("ferryman.recovery")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """How to sweep, and for whom.

    schema_name: the schema to sweep
    settings: thresholds and policies
    recovered_by: the id of the worker that sweeps, or a name for whoever else does
    hooks: asked and told about the jobs
    options: what is different this time
    observed: what a worker has seen itself of the others; None: the age of their beats decides
    finds_orphans: whether to look for locks of workers that are not registered, which reads all jobs
    batch: jobs in a transaction
    hook_seconds: how long hooks may think about one job
    patience_seconds: after so long hooks are asked about no more jobs of a batch; the next sweep asks about the rest
    clock: by which silent workers are watched
    tracing: told of the attempts that died
    """

    schema_name: str
    settings: RecoverySettings
    recovered_by: str
    hooks: HookRegistry
    options: SweepStaleWorkersOptions = field(default_factory=SweepStaleWorkersOptions)
    observed: Sequence[Dead] | None = None
    finds_orphans: bool = True
    batch: int = BATCH
    hook_seconds: float = HOOK_SECONDS
    patience_seconds: float = PATIENCE_SECONDS
    clock: Callable[[], float] = time.monotonic
    tracing: Tracing | None = None

    @property
    def asks(self) -> bool:
        """Whether hooks decide about each job."""
        return self.hooks.wants(JobRecovery)

    @property
    def batch_size(self) -> int:
        """How many jobs are recovered at a time."""
        return min(self.batch, HOOK_BATCH) if self.asks and not self.options.dry_run else self.batch

    @property
    def is_by_hand(self) -> bool:
        """True if only the age of the beats tells who may be dead."""
        return self.observed is None and self.options.worker_ids is None

    @property
    def threshold(self) -> float:
        """Seconds of silence after which a worker is dead."""
        return (self.options.sweep_threshold or self.settings.sweep_threshold).total_seconds()

    @property
    def unregistered_timeout(self) -> float | None:
        """Seconds without a new claim after which a worker that never registered is dead; None: never."""
        given = self.options.unregistered_lock_timeout or self.settings.unregistered_lock_timeout
        return None if given is None else given.total_seconds()

    @property
    def rules(self) -> CrashRules:
        """What a crash means this time."""
        given, settings = self.options.recovery_delay, self.settings
        return CrashRules(
            recovery_delay=(settings.recovery_delay if given is None else given).total_seconds(),
            on_crash=settings.on_crash,
            max_crashes=settings.max_crashes,
            crash_window=settings.crash_window.total_seconds(),
            recover_claimed=settings.recover_claimed,
            recover_running=settings.recover_running,
        )


@dataclass(slots=True)
class Progress:
    """What a sweep has done so far, and the events to tell of it."""

    events: list[Observer] = field(default_factory=list)
    unregistered: Sequence[UnregisteredWorker] = ()
    recoveries: list[Recovery] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)
    """Jobs that hooks left locked, and their workers."""
    unreadable: list[int] = field(default_factory=list)
    dead_worker_ids: tuple[str, ...] = ()
    after: int = 0
    """The newest job that was looked at."""
    was_overtaken: bool = False
    """Whether somebody else took the lock between two batches."""

    def result(self) -> SweepStaleWorkersResult:
        """What the caller learns."""
        return SweepStaleWorkersResult(
            worker_ids=self.dead_worker_ids,
            recovered_count=len(self.recoveries),
            recoveries=tuple(self.recoveries),
            skipped_job_ids=tuple(self.skipped),
            unreadable_job_ids=tuple(self.unreadable),
            unregistered=tuple(self.unregistered),
            is_already_running=self.was_overtaken,
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Jobs of workers that are still dead. Their rows are locked."""

    workers: Mapping[str, DeadWorker]
    facts: Sequence[CrashFacts]
    is_last: bool

    def decisions(self, rules: CrashRules, answers: Answers | None) -> Iterator[tuple[CrashFacts, Decision]]:
        """What to do with which job. A job that hooks should have been asked about, but were not, is left for later."""
        for facts in self.facts:
            claim = (facts.job_id, facts.token)
            if answers is not None and claim not in answers and not facts.is_superseded:
                continue
            answer = None if answers is None else answers.get(claim)
            decision = decide(facts, self.workers[facts.worker_id], rules, answer)
            if decision is not None:
                yield facts, decision

    def skipped(self, answers: Answers) -> dict[int, str]:
        """Jobs that hooks leave locked, and their workers."""
        return {
            facts.job_id: facts.worker_id
            for facts in self.facts
            if isinstance(answers.get((facts.job_id, facts.token)), JobRecoveryResult.Skip)
        }


def sweep_once(sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
    """Sweep, and tell hooks of it. While somebody else sweeps this schema, do nothing and say so."""
    progress = Progress()
    try:
        result = yield from sweep_into(progress, sweep)
    except FerrymanError:
        yield from tell(sweep.hooks, progress.events)
        raise
    yield from tell(sweep.hooks, progress.events)
    return result


def sweep_into(progress: Progress, sweep: Sweep) -> Steps[SweepStaleWorkersResult]:
    """Like `sweep_once`, and leave the events to the caller, also when the sweep ends half-way."""
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
    is_open = True  # whether the transaction of the search can go on with the first batch
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
    [(is_alone,)] = yield recovering.take_sweep_lock(sweep.schema_name)
    if not is_alone:
        yield Rollback()
    return bool(is_alone)


def _begin_again(sweep: Sweep) -> Steps[bool]:
    """Go on with a sweep. Somebody may have come in between, but not for long if there is nothing to be found."""
    for _ in range(LOCK_ATTEMPTS):
        is_alone = yield from _begin(sweep)
        if is_alone:
            return True
        yield Wait(SECONDS_BETWEEN_ATTEMPTS)
    return False


def _find_workers(sweep: Sweep) -> Steps[tuple[Sequence[DeadWorker], Sequence[UnregisteredWorker]]]:
    """The dead, and those of whom it is not known, since they never registered."""
    named, settings = sweep.options.worker_ids, sweep.settings
    silent = yield recovering.find_silent_workers(
        threshold=sweep.threshold,
        claimed_threshold=settings.claimed_threshold.total_seconds(),
        multiplier=settings.resilient_sweep_threshold_multiplier,
        flags=settings.resilient_job_flags,
        observed=None if sweep.observed is None else [_observation(dead) for dead in sweep.observed],
        named=named,
    )
    orphans: Sequence[Row] = ()
    if sweep.finds_orphans or named is not None:
        orphans = yield recovering.find_orphan_holders(
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
    # Whoever sweeps is alive, whatever has become of its own beats.
    return [worker for worker in found if worker.id != sweep.recovered_by], unregistered


def _observation(dead: Dead) -> Mapping[str, Any]:
    return {
        "worker_id": dead.worker_id,
        "last_heartbeat_at": dead.last_heartbeat_at.isoformat(),
        "silence": dead.silent_for,
        "is_session_lost": dead.reason == "session lost",
    }


def _recover_batch_or_each(sweep: Sweep, workers: Sequence[DeadWorker], progress: Progress) -> Steps[bool]:
    """Recover the next jobs. If PostgreSQL refuses to, because of a value in one row, recover them one by one."""
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


def _recover_single(sweep: Sweep, workers: Sequence[DeadWorker], progress: Progress) -> Steps[bool]:
    """Recover the next job, or set it aside."""
    if not (yield from _begin_again(sweep)):
        progress.was_overtaken = True
        return True
    try:
        is_last = yield from _recover_batch(replace(sweep, batch=1, tracing=None), workers, progress)
    except DatabaseError as error:
        if not _is_about_data(error):
            raise
        yield Rollback()
        rows = yield recovering.find_next_interrupted_job([worker.id for worker in workers], after=progress.after)
        for (job_id,) in rows:
            progress.after = job_id
            progress.unreadable.append(job_id)
            logger.error(  # noqa: TRY400 - what PostgreSQL says is all there is to say
                "could not recover job %d; it stays locked by its dead worker until its row is corrected: %s",
                job_id,
                message_of(error),
                extra={"event": "job_not_recovered", "job_id": job_id},
            )
        return not rows
    return is_last


def _is_about_data(error: DatabaseError) -> bool:
    """True if a value in a row is to blame, so that the other rows can still be recovered."""
    return (sqlstate_of(error) or "").startswith(DATA_ERRORS)


def _recover_batch(sweep: Sweep, workers: Sequence[DeadWorker], progress: Progress) -> Steps[bool]:
    """Recover the next jobs in the transaction that is open; says whether they were the last."""
    batch = yield from _lock_batch(sweep, workers, progress.after)
    answers: Answers | None = None
    if sweep.asks and batch.facts:
        answers = yield from _ask(sweep, batch)
        if not (yield from _begin_again(sweep)):
            progress.was_overtaken = True
            return True
        batch = yield from _lock_batch(sweep, workers, progress.after)

    decided = {facts.job_id: (facts, decision) for facts, decision in batch.decisions(sweep.rules, answers)}
    jobs = yield from jobs_to_tell_of(sweep.hooks, [*decided])
    died = yield from _died(sweep, decided)
    rows: Sequence[Row] = ()
    if decided:
        documents = [
            {**decision.document(facts, batch.workers[facts.worker_id].reason), **died.payload_of(facts.job_id)}
            for facts, decision in decided.values()
        ]
        rows = yield recovering.recover_jobs(sweep.recovered_by, documents)
        yield managing.wake_workers(len(rows), using=None)
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
    """The attempts that died, for a tracing library. Without one, nothing is read."""
    if sweep.tracing is None or not decided:
        return DeadAttempts()
    rows = yield recovering.read_interrupted_jobs(
        [job_id for job_id, (_, made) in decided.items() if made.started is not False]
    )
    return DeadAttempts.of(sweep.tracing, rows)


def _lock_batch(sweep: Sweep, workers: Sequence[DeadWorker], after: int) -> Steps[_Batch]:
    confirmed = yield recovering.confirm_dead_workers(
        (worker.id, worker.beat, worker.reason == "by hand") for worker in workers
    )
    dead = {worker_id for (worker_id,) in confirmed}
    still_dead = {worker.id: worker for worker in workers if worker.id in dead}
    if not still_dead:
        return _Batch({}, (), is_last=True)
    locked = yield recovering.lock_interrupted_jobs([*still_dead], after=after, batch=sweep.batch_size)
    if not locked:
        return _Batch(still_dead, (), is_last=True)
    rows = yield recovering.read_crash_facts([job_id for (job_id,) in locked], crash_window=sweep.rules.crash_window)
    return _Batch(still_dead, [CrashFacts.of(row) for row in rows], is_last=len(locked) < sweep.batch_size)


def _ask(sweep: Sweep, batch: _Batch) -> Steps[Answers]:
    """Ask hooks about each job that would be recovered, with nothing locked, for as long as our patience lasts.

    About the first one in any case, so that sweeps come to an end however slow the machine is.
    """
    asked = {facts.job_id: facts for facts, _ in batch.decisions(sweep.rules, None) if not facts.is_superseded}
    rows = yield recovering.read_interrupted_jobs([*asked])
    yield Commit()
    answers: dict[tuple[int, int], JobRecoveryResult] = {}
    end = time.monotonic() + sweep.patience_seconds
    for row in rows:
        if answers and time.monotonic() > end:
            logger.warning(
                "JobRecovery hooks are slow; %d jobs wait for the next sweep",
                len(rows) - len(answers),
                extra={"event": "recovery_hooks_slow", "count": len(rows) - len(answers)},
            )
            break
        job = job_from_row(row)
        facts = asked[job.id]
        event = JobRecovery(
            job=job,
            worker_id=sweep.recovered_by,
            previous_worker_id=facts.worker_id,
            reason=FailureReason.WORKER_CRASHED,
            started=has_started(facts, batch.workers[facts.worker_id]),
        )
        [(answer,)] = yield Decide(sweep.hooks, event, sweep.hook_seconds)
        answers[facts.job_id, facts.token] = answer
    return answers


def _forget(batch: _Batch, progress: Progress) -> Steps[None]:
    """Let go of workers that hold nothing any more. Those that were only slow keep everything else."""
    dead = [worker for worker in batch.workers.values() if worker.is_dead]
    progress.dead_worker_ids = tuple(worker.id for worker in dead)
    if not dead:
        return
    counts = Counter(recovery.worker_id for recovery in progress.recoveries)
    yield recovering.forget_dead_workers(
        [{"id": worker.id, "reason": worker.reason, "recovered_jobs": counts[worker.id]} for worker in dead]
    )


def _foreseen(
    sweep: Sweep, workers: Sequence[DeadWorker], unregistered: Sequence[UnregisteredWorker]
) -> Steps[SweepStaleWorkersResult]:
    """What a sweep would do if hooks had nothing to say."""
    recoveries: list[Recovery] = []
    after, is_last = 0, not workers
    while not is_last:
        batch = yield from _lock_batch(sweep, workers, after)
        for facts, decision in batch.decisions(sweep.rules, None):
            recoveries.append(_foreseen_recovery(facts, decision, batch.workers[facts.worker_id]))
        is_last, after = batch.is_last, batch.facts[-1].job_id if batch.facts else 0
    yield Rollback()
    worker_ids = tuple(worker.id for worker in workers if worker.is_dead)
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
