"""What becomes of a job whose worker died: pure decisions, from what is known to what is done."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ferryman.hooks.results import JobRecoveryResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ferryman.database.steps import Row

RECOVERED = "Job recovered after worker interruption"
"""The error of a job that was given back. Worker and sweeper know by it that the job has crashed before."""

Effect: TypeAlias = Literal["requeue", "return", "retry", "fail", "reschedule"]


@dataclass(frozen=True, slots=True)
class DeadWorker:
    """A worker whose jobs are to be taken away.

    beat: its newest sign of life, in microseconds; None if it is not registered
    is_dead: whether it loses everything; if not, only what it never started
    prefetches: whether it claims ahead of its slots; None if nobody knows
    on_crash: what it takes for the policy of tasks that do not say
    """

    id: str
    reason: str
    beat: int | None
    is_dead: bool
    prefetches: bool | None
    on_crash: str | None


@dataclass(frozen=True, slots=True)
class CrashFacts:
    """What is known about a job that a dead worker holds. Rows come from `read_crash_facts.sql`."""

    job_id: int
    worker_id: str
    token: int
    task_identifier: str
    attempts: int
    is_superseded: bool
    has_crashed: bool
    is_marked: bool
    on_crash: str | None
    retry_base: float | None
    retry_step: float | None
    retry_most: float | None
    retry_jitter: float | None
    known_crashes: int
    unknown_crashes: int
    places: Sequence[str] | None
    """Worker and time of each crash that counts."""

    @classmethod
    def of(cls, row: Row) -> CrashFacts:
        """The facts of a row."""
        return cls(*row)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRules:
    """What the config says about crashes; see `RecoverySettings`. Times are in seconds."""

    recovery_delay: float
    on_crash: str
    max_crashes: int | None
    crash_window: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do with a job. `delay` is in seconds; None: none for "requeue", Graphile's own for "retry"."""

    effect: Effect
    word: str
    started: bool | None
    delay: float | None = None
    error: str | None = None
    run_at: datetime | None = None
    attempts: int | None = None

    def document(self, facts: CrashFacts, reason: str) -> Mapping[str, Any]:
        """For `recover_jobs.sql`."""
        return {
            "id": facts.job_id,
            "worker_id": facts.worker_id,
            "token": facts.token,
            "effect": self.effect,
            "delay": self.delay,
            "run_at": None if self.run_at is None else self.run_at.isoformat(),
            "attempts": self.attempts,
            "error": self.error,
            "started": self.started,
            "decision": self.word,
            "reason": reason,
        }


def decide(
    facts: CrashFacts, worker: DeadWorker, rules: CrashRules, answer: JobRecoveryResult | None = None
) -> Decision | None:
    """What becomes of the job; None leaves it where it is. `answer` is what a hook said about it."""
    started = has_started(facts, worker)
    if not worker.is_dead and started is not False:
        return None
    match answer:
        case JobRecoveryResult.Skip():
            return None
        case JobRecoveryResult.Reschedule(run_at=run_at, attempts=attempts):
            return Decision(
                effect="reschedule",
                word="reschedule",
                started=started,
                error=RECOVERED,
                run_at=run_at,
                attempts=attempts,
            )
        case JobRecoveryResult.FailWithBackoff():
            return Decision(effect="retry", word="backoff", started=started, error=_crashed(worker))
    if started is False:
        return Decision(effect="return", word="given back", started=False)
    return _after_crash(facts, worker, rules, started=started)


def has_started(facts: CrashFacts, worker: DeadWorker) -> bool | None:
    """Whether the job had begun to run; None if that cannot be known.

    A worker that claims ahead marks a job before it starts, if its start matters: when its task is not simply requeued,
    or when it has crashed before. Such a job without a mark never started.
    """
    if facts.is_marked:
        return True
    if worker.prefetches is None:
        # Whoever is registered and says nothing of it, such as a Rust worker, starts what it claims.
        return None if worker.beat is None else True
    if not worker.prefetches:
        return True
    policy = facts.on_crash or worker.on_crash or "requeue"
    return False if policy != "requeue" or facts.has_crashed else None


def _after_crash(facts: CrashFacts, worker: DeadWorker, rules: CrashRules, *, started: bool | None) -> Decision:
    policy = facts.on_crash or rules.on_crash
    if policy == "fail":
        return Decision(effect="fail", word="fail", started=started, error=_crashed(worker))
    if _is_poisonous(facts, rules, started=started):
        return Decision(effect="fail", word="poisoned", started=started, error=_poisoned(facts, worker, rules))
    if policy == "retry":
        return Decision(effect="retry", word="retry", started=started, delay=_delay(facts), error=_crashed(worker))
    return Decision(effect="requeue", word="requeue", started=started, delay=rules.recovery_delay, error=RECOVERED)


def _is_poisonous(facts: CrashFacts, rules: CrashRules, *, started: bool | None) -> bool:
    """Whether the job crashed often enough, this time included.

    Crashes that may have hit a bystander count only beside enough that did not: a job that was merely claimed ahead
    is marked before its next start, so that from then on it is known.
    """
    if rules.max_crashes is None:
        return False
    known = facts.known_crashes + (started is True)
    unknown = facts.unknown_crashes + (started is None)
    return known + unknown >= rules.max_crashes and known >= max(1, rules.max_crashes - 1)


def _delay(facts: CrashFacts) -> float | None:
    """Seconds after this many attempts, by the task's own policy; None leaves it to the database."""
    if facts.retry_base is None:
        return None
    seconds = facts.retry_base + (facts.retry_step or 0) * facts.attempts
    if facts.retry_most is not None:
        seconds = min(seconds, facts.retry_most)
    jitter = facts.retry_jitter or 0
    return seconds * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311 - no secret depends on it


def _crashed(worker: DeadWorker) -> str:
    return f"WorkerCrashed: {_ended(worker)} while it held this job"


def _poisoned(facts: CrashFacts, worker: DeadWorker, rules: CrashRules) -> str:
    places = facts.places or ()
    hours = rules.crash_window / 3600
    past = "".join(f"{place}, " for place in places)
    return (
        f"WorkerCrashed: {len(places) + 1} workers died within {hours:g} h while they held this job "
        f"({past}{worker.id} just now), so it does not run again. "
        f"When the cause is mended, reschedule it with attempts=0."
    )


def _ended(worker: DeadWorker) -> str:
    match worker.reason:
        case "session lost":
            return f"worker {worker.id} lost its database session and gave no sign of life any more"
        case "silent":
            return f"worker {worker.id} gave no sign of life any more"
        case "unregistered":
            return f"worker {worker.id} was gone"
        case _:
            return f"worker {worker.id} was declared dead"
