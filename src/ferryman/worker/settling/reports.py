"""Reports what was settled, after it was written, to the log and to hooks."""

from __future__ import annotations

import logging
from contextlib import contextmanager
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
from ferryman.hooks.reporting import Telling
from ferryman.worker.settling.job_log import JobLog
from ferryman.worker.settling.outcomes import (
    Completed,
    CompletedByHandler,
    Failed,
    Interrupted,
    Outcome,
    Snoozed,
    Unstarted,
    is_last,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.task_numbers import TaskNumbers
    from ferryman.worker.duties.worker_state import Tally
    from ferryman.worker.settling.outcomes import Settlement

    _Report = tuple[Settlement, bool]
    """A settlement, and whether it was refused."""

logger = logging.getLogger("ferryman.worker")

_EVENTS = (JobComplete, JobFail, JobPermanentlyFail, JobInterrupted, SettleRefused)


class Reports:
    """Logs settlements at once, and reports them to hooks, which may take their time.

    tasks: finds the identifier that a job carries
    tally: counts the jobs that have ended
    width: how many events may be reported at the same time
    log_jobs: whether jobs that complete are logged as INFO
    """

    def __init__(
        self,
        hooks: HookRegistry,
        tasks: TaskNumbers,
        tally: Tally,
        *,
        width: int,
        log_jobs: bool = False,
    ) -> None:
        self._hooks = hooks
        self._tasks = tasks
        self._tally = tally
        self._job_log = JobLog(tasks, log_jobs=log_jobs)
        self._telling: Telling[_Report] = Telling(self._tell, width=width)
        self.drain = self._telling.drain
        self.close = self._telling.close

    @property
    def untold(self) -> int:
        """How many settlements hooks have not handled yet."""
        return self._telling.untold

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Report settlements. Nothing here waits for hooks."""
        self._tally.written += len(written)
        logs_completed = self._job_log.wants_completed
        wants_completed = logs_completed or self._hooks.wants(JobComplete)
        reports = [
            (settlement, False)
            for settlement in written
            if wants_completed or not isinstance(settlement.outcome, Completed)
        ]
        reports += [(settlement, True) for settlement in refused]
        if not reports:
            return
        for settlement, is_refused in reports:
            if not logs_completed and not is_refused and isinstance(settlement.outcome, Completed):
                continue  # hooks alone want it
            with self._containing(settlement.claim):
                self._log(settlement.claim, settlement.outcome, is_refused=is_refused)
        if self._hooks.wants_any(*_EVENTS):
            self._telling.put(reports)

    @contextmanager
    def _containing(self, claim: Claim) -> Iterator[None]:
        """Log an error that is due to one job's row, so that the others are reported."""
        try:
            yield
        except Exception:
            logger.exception(
                "could not log how job %d ended, or report it to hooks; the database is not affected, and other jobs "
                "are reported",
                claim.job_id,
                extra={"event": "report_failed", "job_id": claim.job_id},
            )

    def _log(self, claim: Claim, outcome: Outcome, *, is_refused: bool) -> None:
        if is_refused:
            self._job_log.refused(claim)
            return
        if isinstance(outcome, Failed):
            self._tally.failed += 1
        elif not isinstance(outcome, Completed):
            self._tally.returned += 1
        self._job_log.written(claim, outcome)

    async def _tell(self, report: _Report) -> None:
        settlement, is_refused = report
        claim, outcome = settlement.claim, settlement.outcome
        with self._containing(claim):
            event = self._refusal(claim, outcome) if is_refused else self._event(claim, outcome)
            if event is not None:
                await self._hooks.emit(event)

    def _refusal(self, claim: Claim, outcome: Outcome) -> Observer | None:
        if not self._hooks.wants(SettleRefused):
            return None
        return SettleRefused(job_id=claim.job_id, worker_id=claim.worker_id, outcome=_kind(outcome))

    def _event(self, claim: Claim, outcome: Outcome) -> Observer | None:
        worker_id, identifier = claim.worker_id, self._tasks.identifier_of(claim)
        match outcome:
            case Completed() if self._hooks.wants(JobComplete):
                duration = timedelta(seconds=outcome.seconds)
                return JobComplete(job=claim.job(identifier), worker_id=worker_id, duration=duration)
            case Failed() if not is_last(claim, outcome) and self._hooks.wants(JobFail):
                job = claim.job(identifier)
                return JobFail(job=job, worker_id=worker_id, error=outcome.error, will_retry=True)
            case Failed() if is_last(claim, outcome) and self._hooks.wants(JobPermanentlyFail):
                job = claim.job(identifier)
                return JobPermanentlyFail(job=job, worker_id=worker_id, error=outcome.error)
            case Interrupted() if self._hooks.wants(JobInterrupted):
                reason = FailureReason.SHUTDOWN_ABORTED
                return JobInterrupted(job=claim.job(identifier), worker_id=worker_id, reason=reason)
            case _:
                return None


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
