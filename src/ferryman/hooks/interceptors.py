"""The events about which hooks decide: which answers each takes, and what happens if a hook fails."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from msgspec.structs import replace

from ferryman.hooks.answers import (
    UNCHANGED,
    Continue,
    FailureReason,
    HookResult,
    JobRecoveryResult,
    JobScheduleResult,
    Reject,
    Skip,
)
from ferryman.hooks.kinds import Interceptor
from ferryman.jobs import Job, JobSpec

if TYPE_CHECKING:
    from typing import Self


class BeforeJobRun(Interceptor["BeforeJobRun", HookResult], frozen=True, kw_only=True):
    """A claimed job is about to run.

    `Skip()` completes the job without running it, `Reject(message)` fails the attempt. So does a hook that fails: the
    result of its check is unknown, and the job must neither run nor be lost.
    """

    takes: ClassVar[str] = "None, Continue(), Skip() or Reject(message)"

    job: Job
    worker_id: str
    payload: Any

    def accepts(self, answer: object) -> TypeGuard[HookResult]:
        """True for any answer without a payload, which is too late to change."""
        return _is_verdict(answer)

    def undecided(self) -> HookResult:
        """Return the answer for the case that no hook decides: the job runs."""
        return Continue()

    def after_error(self, message: str) -> HookResult:
        """Return the answer in place of a hook that failed: the attempt fails."""
        return Reject(message)

    def after(self, answer: HookResult) -> Self | None:
        """Return the event for the next hook; None after the first `Skip` or `Reject`, which is final."""
        return self if isinstance(answer, Continue) else None


class AfterJobRun(Interceptor["AfterJobRun", HookResult], frozen=True, kw_only=True):
    """A task has returned or raised, and its outcome is not stored yet.

    `Skip()` turns the outcome into a success, `Reject(message)` into a failure. A hook that fails changes nothing: a
    broken hook is no reason to run a finished job again.
    """

    takes: ClassVar[str] = "None, Continue(), Skip() or Reject(message)"

    job: Job
    worker_id: str
    error: str | None
    """The error that the task raised; None after a success."""
    duration: timedelta

    def accepts(self, answer: object) -> TypeGuard[HookResult]:
        """True for any answer without a payload."""
        return _is_verdict(answer)

    def undecided(self) -> HookResult:
        """Return the answer for the case that no hook decides: the outcome stands."""
        return Continue()

    def after_error(self, message: str) -> HookResult:  # noqa: ARG002 - it is in the log
        """Return the answer in place of a hook that failed: the outcome stands, unless another hook decides."""
        return Continue()

    def after(self, answer: HookResult) -> Self | None:
        """Return the event for the next hook; None after the first `Skip` or `Reject`, which is final."""
        return self if isinstance(answer, Continue) else None


class JobRecovery(Interceptor["JobRecovery", JobRecoveryResult], frozen=True, kw_only=True):
    """An interrupted job is about to be recovered, by a sweep or by its own worker at shutdown.

    A hook that fails decides nothing: the job is recovered as configured.
    """

    takes: ClassVar[str] = (
        "None, JobRecoveryResult.Default(), .Reschedule(run_at, attempts), .FailWithBackoff() or .Skip()"
    )

    job: Job
    worker_id: str
    """The worker that recovers the job."""
    previous_worker_id: str
    """The worker that had claimed it."""
    reason: FailureReason
    started: bool | None = None
    """True if its handler had started, False if not, None if that cannot be known."""

    def accepts(self, answer: object) -> TypeGuard[JobRecoveryResult]:
        """True for the four answers, not for `JobRecoveryResult` itself."""
        return isinstance(answer, JobRecoveryResult) and type(answer) is not JobRecoveryResult

    def meant(self, answer: object) -> object:
        """Let a hook return a class for its only value, as in Rust: `JobRecoveryResult.Skip` for `….Skip()`."""
        single = (JobRecoveryResult.Default, JobRecoveryResult.FailWithBackoff, JobRecoveryResult.Skip)
        return answer() if isinstance(answer, type) and answer in single else answer

    def objection(self, answer: JobRecoveryResult) -> str | None:
        """Refuse to reschedule a job with no attempt left."""
        given = answer.attempts if isinstance(answer, JobRecoveryResult.Reschedule) else None
        if given is None or given < self.job.max_attempts:
            return None
        return (
            f"Reschedule(attempts={given}) for job {self.job.id}, which has max_attempts={self.job.max_attempts} and "
            f"would never run; the job is recovered as configured"
        )

    def undecided(self) -> JobRecoveryResult:
        """Return the answer for the case that no hook decides: the job is recovered as configured."""
        return JobRecoveryResult.Default()

    def after_error(self, message: str) -> JobRecoveryResult:  # noqa: ARG002 - it is in the log
        """Return the answer in place of a hook that failed: recover as configured, unless another hook decides."""
        return JobRecoveryResult.Default()

    def after(self, answer: JobRecoveryResult) -> Self | None:
        """Return the event for the next hook; None after any answer but `Default`, which is final."""
        return self if isinstance(answer, JobRecoveryResult.Default) else None


class BeforeJobSchedule(Interceptor["BeforeJobSchedule", JobScheduleResult], frozen=True, kw_only=True):
    """A client is about to add a job.

    `Continue(payload)` replaces the payload, for the next hook too. After `Skip()` or `Reject(message)` nothing is
    added, and the caller gets an error. So it is if a hook fails: it might have been about to complete the payload.
    """

    takes: ClassVar[str] = "None, Continue(payload), Skip() or Reject(message)"

    identifier: str
    payload: Any
    spec: JobSpec

    def accepts(self, answer: object) -> TypeGuard[JobScheduleResult]:
        """True for all answers."""
        return isinstance(answer, (Continue, Skip, Reject))

    def undecided(self) -> JobScheduleResult:
        """Return the answer for the case that no hook decides: the job is added with its current payload."""
        return Continue(self.payload)

    def after_error(self, message: str) -> JobScheduleResult:
        """Return the answer in place of a hook that failed: nothing is added."""
        return Reject(message)

    def after(self, answer: JobScheduleResult) -> Self | None:
        """Return the event for the next hook, with the new payload; None after `Skip` or `Reject`, which are final."""
        if not isinstance(answer, Continue):
            return None
        return self if answer.payload is UNCHANGED else replace(self, payload=answer.payload)


def _is_verdict(answer: object) -> TypeGuard[HookResult]:
    if isinstance(answer, Continue):
        return answer.payload is UNCHANGED
    return isinstance(answer, (Skip, Reject))
