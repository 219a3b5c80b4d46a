"""Tells hooks and the log what was settled, after it was written."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from ferryman.hooks import (
    FailureReason,
    JobComplete,
    JobFail,
    JobInterrupted,
    JobPermanentlyFail,
    SettleOutcome,
    SettleRefused,
)
from ferryman.worker.outcomes import (
    Completed,
    CompletedByHandler,
    Failed,
    Interrupted,
    Outcome,
    Snoozed,
    Unstarted,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.worker.claims import Claim
    from ferryman.worker.outcomes import Settlement
    from ferryman.worker.state import Tally

logger = logging.getLogger("ferryman.worker")


class Reports:
    """Turns settlements into events and log lines."""

    def __init__(self, hooks: HookRegistry, tasks: Mapping[int, str], tally: Tally) -> None:
        self._hooks = hooks
        self._tasks = tasks
        self._tally = tally

    async def tell(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Tell about settlements."""
        wants_completed = self._hooks.wants(JobComplete)
        for settlement in written:
            if wants_completed or not isinstance(settlement.outcome, Completed):
                await self._try(self._tell_written(settlement.claim, settlement.outcome), settlement.claim)
        for settlement in refused:
            await self._try(self._tell_refused(settlement.claim, settlement.outcome), settlement.claim)

    async def _try(self, telling: Awaitable[None], claim: Claim) -> None:
        """Whatever is wrong with a job's row, settling goes on."""
        try:
            await telling
        except Exception:
            logger.exception(
                "the outcome of job %d was recorded, but could not be told",
                claim.job_id,
                extra={"event": "report_failed", "job_id": claim.job_id},
            )

    async def _tell_written(self, claim: Claim, outcome: Outcome) -> None:
        identifier = self._tasks.get(claim.task_id, "")
        if isinstance(outcome, Failed):
            self._tally.failed += 1
            first_line = outcome.error.partition("\n")[0]
            logger.warning(
                "job %d (%s) failed, attempt %d: %s",
                claim.job_id,
                identifier,
                claim.attempts,
                first_line,
                extra=self._fields("job_failed", claim),
            )
        elif not isinstance(outcome, Completed):
            self._tally.returned += 1
        event = self._event(claim, outcome, identifier)
        if event is not None:
            await self._hooks.emit(event)

    async def _tell_refused(self, claim: Claim, outcome: Outcome) -> None:
        logger.warning(
            "job %d was taken away from this worker before it ended; its outcome was not recorded",
            claim.job_id,
            extra=self._fields("settlement_refused", claim),
        )
        if self._hooks.wants(SettleRefused):
            kind = _kind(outcome)
            await self._hooks.emit(SettleRefused(job_id=claim.job_id, worker_id=claim.worker_id, outcome=kind))

    def _fields(self, event: str, claim: Claim) -> dict[str, object]:
        """What a structured log keeps apart from the message."""
        return {
            "event": event,
            "job_id": claim.job_id,
            "task": self._tasks.get(claim.task_id, ""),
            "attempt": claim.attempts,
            "worker_id": claim.worker_id,
        }

    def _event(self, claim: Claim, outcome: Outcome, identifier: str) -> Observer | None:
        worker_id = claim.worker_id
        match outcome:
            case Completed() if self._hooks.wants(JobComplete):
                duration = timedelta(seconds=outcome.seconds)
                return JobComplete(job=claim.job(identifier), worker_id=worker_id, duration=duration)
            case Failed() if not _is_last(claim, outcome) and self._hooks.wants(JobFail):
                job = claim.job(identifier)
                return JobFail(job=job, worker_id=worker_id, error=outcome.error, will_retry=True)
            case Failed() if _is_last(claim, outcome) and self._hooks.wants(JobPermanentlyFail):
                job = claim.job(identifier)
                return JobPermanentlyFail(job=job, worker_id=worker_id, error=outcome.error)
            case Interrupted() if self._hooks.wants(JobInterrupted):
                reason = FailureReason.SHUTDOWN_ABORTED
                return JobInterrupted(job=claim.job(identifier), worker_id=worker_id, reason=reason)
            case _:
                return None


def _is_last(claim: Claim, outcome: Failed) -> bool:
    return outcome.is_final or claim.attempts >= claim.max_attempts


def _kind(outcome: Outcome) -> SettleOutcome:
    match outcome:
        case Completed() | CompletedByHandler():
            return SettleOutcome.COMPLETE
        case Failed():
            return SettleOutcome.FAIL
        case Snoozed() | Interrupted() | Unstarted():
            return SettleOutcome.RETURN
        case never:
            assert_never(never)
