"""The events that hooks decide, each with its rules for answers and errors."""

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

    `Skip()` completes the job unrun, `Reject(message)` fails the attempt. So does a hook that fails: what it was to
    check is unknown, and the job must neither run nor be lost.
    """

    takes: ClassVar[str] = "None, Continue(), Skip() or Reject(message)"

    job: Job
    worker_id: str
    payload: Any

    def accepts(self, answer: object) -> TypeGuard[HookResult]:
        """Anything but a payload: it is too late to change that."""
        return _is_verdict(answer)

    def undecided(self) -> HookResult:
        """The job runs."""
        return Continue()

    def after_error(self, message: str) -> HookResult:
        """The attempt fails."""
        return Reject(message)

    def after(self, answer: HookResult) -> Self | None:
        """The first `Skip` or `Reject` is final."""
        return self if isinstance(answer, Continue) else None


class AfterJobRun(Interceptor["AfterJobRun", HookResult], frozen=True, kw_only=True):
    """A task has returned or raised, and nothing is written yet.

    `Skip()` makes a success of the attempt, `Reject(message)` a failure. A hook that fails changes nothing: the outcome
    is a fact, and a broken hook is no reason to run a finished job again.
    """

    takes: ClassVar[str] = "None, Continue(), Skip() or Reject(message)"

    job: Job
    worker_id: str
    error: str | None
    """What the task raised; None after a success."""
    duration: timedelta

    def accepts(self, answer: object) -> TypeGuard[HookResult]:
        """Anything but a payload."""
        return _is_verdict(answer)

    def undecided(self) -> HookResult:
        """The outcome stands."""
        return Continue()

    def after_error(self, message: str) -> HookResult:  # noqa: ARG002 - it is in the log
        """The outcome stands, as far as this hook goes."""
        return Continue()

    def after(self, answer: HookResult) -> Self | None:
        """The first `Skip` or `Reject` is final."""
        return self if isinstance(answer, Continue) else None


class JobRecovery(Interceptor["JobRecovery", JobRecoveryResult], frozen=True, kw_only=True):
    """A job was interrupted and is about to be given back.

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
    """Whether its handler had started; None if that cannot be known."""

    def accepts(self, answer: object) -> TypeGuard[JobRecoveryResult]:
        """Only the members: the class that names them says nothing."""
        return isinstance(answer, JobRecoveryResult) and type(answer) is not JobRecoveryResult

    def meant(self, answer: object) -> object:
        """A class stands for its only value, as in Rust: `JobRecoveryResult.Skip` is `JobRecoveryResult.Skip()`."""
        single = (JobRecoveryResult.Default, JobRecoveryResult.FailWithBackoff, JobRecoveryResult.Skip)
        return answer() if isinstance(answer, type) and answer in single else answer

    def objection(self, answer: JobRecoveryResult) -> str | None:
        """A job is not rescheduled to run with no attempt left."""
        given = answer.attempts if isinstance(answer, JobRecoveryResult.Reschedule) else None
        if given is None or given < self.job.max_attempts:
            return None
        return (
            f"Reschedule(attempts={given}) for job {self.job.id}, which has max_attempts={self.job.max_attempts} and "
            f"would never run; the job is recovered as configured"
        )

    def undecided(self) -> JobRecoveryResult:
        """The job is recovered as configured."""
        return JobRecoveryResult.Default()

    def after_error(self, message: str) -> JobRecoveryResult:  # noqa: ARG002 - it is in the log
        """The job is recovered as configured, unless another hook decides."""
        return JobRecoveryResult.Default()

    def after(self, answer: JobRecoveryResult) -> Self | None:
        """Whatever differs from the default is final."""
        return self if isinstance(answer, JobRecoveryResult.Default) else None


class BeforeJobSchedule(Interceptor["BeforeJobSchedule", JobScheduleResult], frozen=True, kw_only=True):
    """A client is about to add a job.

    `Continue(payload)` changes the payload, for the next hook too. `Skip()` and `Reject(message)` add nothing and raise
    an error for the caller. So does a hook that fails: a payload that it was to complete must not be stored without.
    """

    takes: ClassVar[str] = "None, Continue(payload), Skip() or Reject(message)"

    identifier: str
    payload: Any
    spec: JobSpec

    def accepts(self, answer: object) -> TypeGuard[JobScheduleResult]:
        """Any of them."""
        return isinstance(answer, (Continue, Skip, Reject))

    def undecided(self) -> JobScheduleResult:
        """The job is added with the payload that it has by now."""
        return Continue(self.payload)

    def after_error(self, message: str) -> JobScheduleResult:
        """Nothing is added."""
        return Reject(message)

    def after(self, answer: JobScheduleResult) -> Self | None:
        """The next hook sees the payload of this one; the first `Skip` or `Reject` is final."""
        if not isinstance(answer, Continue):
            return None
        return self if answer.payload is UNCHANGED else replace(self, payload=answer.payload)


def _is_verdict(answer: object) -> TypeGuard[HookResult]:
    if isinstance(answer, Continue):
        return answer.payload is UNCHANGED
    return isinstance(answer, (Skip, Reject))
