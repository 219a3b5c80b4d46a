"""Locks and reads one batch of a sweep: jobs of dead workers. Asks hooks about them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ferryman.database.steps import Commit, Decide
from ferryman.hooks import FailureReason, JobRecovery
from ferryman.hooks.answers import JobRecoveryResult
from ferryman.queries.job_rows import job_from_row
from ferryman.queries.sweep import confirm_dead_workers, lock_interrupted_jobs, read_crash_facts, read_interrupted_jobs
from ferryman.recovery.crashes import CrashFacts, CrashRules, DeadWorker, decide, has_started

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ferryman.database.steps import Steps
    from ferryman.recovery.crashes import Decision
    from ferryman.recovery.sweep_plan import Sweep

logger = logging.getLogger("ferryman.recovery")

Answers: TypeAlias = "Mapping[tuple[int, int], JobRecoveryResult]"
"""The answers of hooks, by job id and token."""


@dataclass(frozen=True, slots=True)
class SweepBatch:
    """Jobs of workers that are still dead. Their rows are locked."""

    workers: Mapping[str, DeadWorker]
    facts: Sequence[CrashFacts]
    is_last: bool

    def decisions(self, rules: CrashRules, answers: Answers | None) -> Iterator[tuple[CrashFacts, Decision]]:
        """Each job with its decision. A job that waits for the answer of a hook is left for later."""
        for facts in self.facts:
            claim = (facts.job_id, facts.token)
            if answers is not None and claim not in answers and not facts.is_superseded:
                continue
            answer = None if answers is None else answers.get(claim)
            decision = decide(facts, self.workers[facts.worker_id], rules, answer)
            if decision is not None:
                yield facts, decision

    def skipped(self, answers: Answers) -> dict[int, str]:
        """The jobs that hooks left locked, with their workers."""
        return {
            facts.job_id: facts.worker_id
            for facts in self.facts
            if isinstance(answers.get((facts.job_id, facts.token)), JobRecoveryResult.Skip)
        }


def lock_batch(sweep: Sweep, workers: Sequence[DeadWorker], after: int) -> Steps[SweepBatch]:
    """Confirm which workers are still dead, lock their next jobs after the id `after`, and read the facts of each."""
    confirmed = yield confirm_dead_workers((worker.id, worker.beat, worker.reason == "by hand") for worker in workers)
    dead = {worker_id for (worker_id,) in confirmed}
    still_dead = {worker.id: worker for worker in workers if worker.id in dead}
    if not still_dead:
        return SweepBatch({}, (), is_last=True)
    locked = yield lock_interrupted_jobs([*still_dead], after=after, batch=sweep.batch_size)
    if not locked:
        return SweepBatch(still_dead, (), is_last=True)
    rows = yield read_crash_facts([job_id for (job_id,) in locked], crash_window=sweep.rules.crash_window)
    return SweepBatch(still_dead, [CrashFacts.of(row) for row in rows], is_last=len(locked) < sweep.batch_size)


def ask_hooks(sweep: Sweep, batch: SweepBatch) -> Steps[Answers]:
    """Ask hooks about each job that would be recovered, with nothing locked, until `patience_seconds` are over.

    They are always asked about the first job, so that sweeps make progress on any machine.
    """
    asked = {facts.job_id: facts for facts, _ in batch.decisions(sweep.rules, None) if not facts.is_superseded}
    rows = yield read_interrupted_jobs([*asked])
    yield Commit()
    answers: dict[tuple[int, int], JobRecoveryResult] = {}
    end = time.monotonic() + sweep.patience_seconds
    for row in rows:
        if answers and time.monotonic() > end:
            logger.warning(
                "the JobRecovery hooks are too slow; %d jobs of dead workers stay locked until a later sweep asks "
                "about them",
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
