"""Logs how each job ended, after its outcome was written."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ferryman.worker.settling.outcomes import Completed, Failed, Interrupted, Snoozed, is_last

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.task_numbers import TaskNumbers
    from ferryman.worker.settling.outcomes import Outcome

logger = logging.getLogger("ferryman.worker")


class JobLog:
    """Log lines about jobs.

    tasks: finds the identifier that a job carries
    log_jobs: True logs each job that completes or is snoozed as INFO, and the traceback of each attempt that fails.
        Otherwise such jobs are logged as DEBUG, and only the last attempt has a traceback
    """

    def __init__(self, tasks: TaskNumbers, *, log_jobs: bool) -> None:
        self._tasks = tasks
        self._logs_jobs = log_jobs
        self._level = logging.INFO if log_jobs else logging.DEBUG

    @property
    def wants_completed(self) -> bool:
        """True if jobs that complete are logged. Asked once per write; if they are not, each costs nothing here."""
        return logger.isEnabledFor(self._level)

    def refused(self, claim: Claim) -> None:
        """Log that an outcome was refused."""
        logger.warning(
            "outcome of job %d (%s) not recorded: the job no longer belongs to this worker, and another may run it",
            claim.job_id,
            self._task(claim),
            extra=self._fields("settlement_refused", claim),
        )

    def written(self, claim: Claim, outcome: Outcome) -> None:
        """Log how a job ended."""
        match outcome:
            case Completed():
                logger.log(
                    self._level,
                    "job %d (%s) completed in %s",
                    claim.job_id,
                    self._task(claim),
                    format_seconds(outcome.seconds),
                    extra=self._fields("job_completed", claim, seconds=round(outcome.seconds, 6)),
                )
            case Snoozed():
                when, fields = next_run(outcome.delay)
                logger.log(
                    self._level,
                    "job %d (%s) was snoozed; it runs again %s",
                    claim.job_id,
                    self._task(claim),
                    when,
                    extra=self._fields("job_snoozed", claim, **fields),
                )
            case Failed():
                self._failed(claim, outcome)
            case Interrupted():
                self._interrupted(claim, outcome)
            case _:
                return

    def _failed(self, claim: Claim, outcome: Failed) -> None:
        error, _, trace = outcome.error.partition("\n")
        if is_last(claim, outcome):
            log_with_traceback(
                logging.ERROR,
                "job %d (%s) failed for good in attempt %d of %d: %s",
                (claim.job_id, self._task(claim), claim.attempts, claim.max_attempts, error),
                trace=trace.strip("\n"),
                extra=self._fields("job_permanently_failed", claim),
            )
            return
        when, fields = next_run(_retry_delay(claim, outcome.delay))
        log_with_traceback(
            logging.WARNING,
            "job %d (%s) failed in attempt %d of %d; the next attempt is %s: %s",
            (claim.job_id, self._task(claim), claim.attempts, claim.max_attempts, when, error),
            trace=trace.strip("\n") if self._logs_jobs else "",
            extra=self._fields("job_failed", claim, **fields),
        )

    def _interrupted(self, claim: Claim, outcome: Interrupted) -> None:
        has_next = not outcome.uses_attempt or claim.attempts < claim.max_attempts
        delay = _retry_delay(claim, outcome.delay) if outcome.uses_attempt else outcome.delay
        when, fields = next_run(delay, outcome.run_at) if has_next else ("", {})
        logger.warning(
            "job %d (%s) was interrupted, because its worker shuts down; %s",
            claim.job_id,
            self._task(claim),
            f"it runs again {when}" if has_next else "it has no attempt left",
            extra=self._fields("job_interrupted", claim, **fields),
        )

    def _task(self, claim: Claim) -> str:
        return self._tasks.identifier_of(claim)

    def _fields(self, event: str, claim: Claim, **more: object) -> dict[str, object]:
        """The structured fields of a log line."""
        return {
            "event": event,
            "job_id": claim.job_id,
            "task": self._task(claim),
            "attempt": claim.attempts,
            "worker_id": claim.worker_id,
            **more,
        }


def log_with_traceback(
    level: int, message: str, values: tuple[object, ...], *, trace: str, extra: Mapping[str, object]
) -> None:
    """Log an error whose traceback is known as text alone, so that every formatter shows it as one."""
    if not logger.isEnabledFor(level):
        return
    record = logger.makeRecord(logger.name, level, __file__, 0, message, values, None, extra=extra)
    record.exc_text = trace or None
    logger.handle(record)


def next_run(delay: float | None, run_at: datetime | None = None) -> tuple[str, dict[str, Any]]:
    """When a job runs again, in words and as a field, on this machine's clock."""
    if run_at is None:
        try:
            run_at = datetime.now(UTC) + timedelta(seconds=delay or 0.0)
            local = run_at.astimezone()
        except (OverflowError, ValueError):  # later than any date that Python has
            return f"in {format_seconds(delay or 0.0)}", {}
        told = f"at {local:%Y-%m-%d %H:%M:%S} (in {format_seconds(delay)})" if delay else "now"
    else:
        told = f"at {run_at}"
    return told, {"run_at": run_at.isoformat(timespec="milliseconds")}


def format_job_count(count: int) -> str:
    """`1 job`, `2 jobs`."""
    return "1 job" if count == 1 else f"{count:,} jobs"


def format_seconds(seconds: float) -> str:
    """A duration for people: `0.4 ms`, `12 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`, `3 days`."""
    if not math.isfinite(seconds) or seconds >= 2 * 86400:
        return f"{seconds / 86400:,.0f} days"
    if seconds < 0.9995:  # noqa: PLR2004 - what is a second when rounded is not a thousand milliseconds
        return f"{seconds * 1000:.{1 if seconds < 0.00995 else 0}f} ms"  # noqa: PLR2004 - ten of them need no decimal
    if seconds < 59.95:  # noqa: PLR2004 - a minute when rounded
        return f"{round(seconds, 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _retry_delay(claim: Claim, delay: float | None) -> float:
    """Seconds until the next attempt; None stands for Graphile's own delay."""
    return math.exp(min(claim.attempts, 10)) if delay is None else delay
