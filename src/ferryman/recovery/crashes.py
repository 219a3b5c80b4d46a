"""What becomes of a job whose worker died: pure decisions, from what is known to what is done."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ferryman.hooks.answers import JobRecoveryResult
from ferryman.retries import ON_CRASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ferryman.database.steps import Row

RECOVERED = "Job recovered after worker interruption"
"""The error of a job that was recovered or interrupted at shutdown, in the Rust worker's words."""

CRASHED_FLAG = "ferryman:crashed"
"""The flag of a job that has crashed. Its value is the time of the first crash that counts, in microseconds.

A worker marks the start of such a job. Any ordinary end of an attempt removes this flag and the two below.
"""
SUSPECT_FLAG = "ferryman:suspect"
"""The flag of a job that was running when a worker died. A worker runs suspects in a quarter of its slots."""
ALONE_FLAG = "ferryman:alone"
"""The flag of a suspect whose next crash may be its last. It runs while its worker runs nothing else."""

Effect: TypeAlias = Literal["requeue", "return", "retry", "fail", "reschedule"]
Suspicion: TypeAlias = Literal["none", "crashed", "suspect", "alone"]
"""What a job's flags say. Each word includes those before it."""


class DeadWorker(msgspec.Struct, frozen=True):
    """A worker whose jobs are to be taken away.

    beat: its newest heartbeat, in microseconds; None if it is not registered
    is_dead: True if it loses everything; if not, it loses only what it never started
    prefetches: True if it claims ahead of its slots; None if that is unknown
    on_crash: its default policy, for tasks that do not have one
    """

    id: str
    reason: str
    beat: int | None
    is_dead: bool
    prefetches: bool | None
    on_crash: str | None


class CrashFacts(msgspec.Struct, frozen=True):
    """What is known about a job that a dead worker holds. Rows come from `read_crash_facts.sql`.

    suspicion: what the job's flags say
    is_marked: True if the worker has marked the start of this claim
    is_waiting: True if the worker's last list of unstarted claims has this one
    isolates: True if the worker marks what has crashed, and runs suspects as their flags say
    own_policies: True if the worker's row says what its tasks do after a crash
    policy: the policy of the task, from the worker's row, or from the table if there is none
    own_max_crashes: the worker's limit, as JSON: a number, null (no limit), or None if it does not say
    crashes: how many crashes count so far, since the last ordinary end of an attempt
    places: worker and time of each of them
    """

    job_id: int
    worker_id: str
    token: int
    task_identifier: str
    attempts: int
    is_superseded: bool
    suspicion: Suspicion
    is_marked: bool
    is_waiting: bool
    isolates: bool
    own_policies: bool
    policy: Mapping[str, Any] | None
    own_max_crashes: str | None
    crashes: int
    places: Sequence[str] | None

    @classmethod
    def of(cls, row: Row) -> CrashFacts:
        """The facts of a row."""
        return cls(*row)

    @property
    def on_crash(self) -> str | None:
        """The policy of the task; None if it has none."""
        return _known_policy((self.policy or {}).get("on_crash"))

    @property
    def ran_alone(self) -> bool:
        """True if nothing but this job ran when the worker died."""
        return self.isolates and self.is_marked and self.suspicion == "alone"


class CrashRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the config says about crashes; see `RecoverySettings`. Times are in seconds."""

    recovery_delay: float
    on_crash: str
    max_crashes: int | None
    crash_window: float
    recover_claimed: bool = True
    recover_running: bool = True


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a job. `delay` is in seconds; None: none for "requeue", Graphile's own for "retry"."""

    effect: Effect
    word: str
    started: bool | None
    delay: float | None = None
    error: str | None = None
    run_at: datetime | None = None
    attempts: int | None = None
    suspicion: Suspicion | None = None
    """What its flags say from now on; None leaves them as they are."""

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
            "suspicion": self.suspicion,
        }


def decide(
    facts: CrashFacts, worker: DeadWorker, rules: CrashRules, answer: JobRecoveryResult | None = None
) -> Decision | None:
    """What becomes of the job; None leaves it where it is. `answer` is what a hook said about it."""
    started = has_started(facts, worker)
    if started is False:
        return _unstarted(worker, rules, answer)
    if not worker.is_dead or not rules.recover_running:
        return None
    suspicion = _suspicion(facts, rules, started=started)
    match answer:
        case JobRecoveryResult.Skip():
            return None
        case JobRecoveryResult.Reschedule(run_at=run_at, attempts=attempts):
            return replace(_rescheduled(run_at, attempts, started=started), suspicion=suspicion)
        case JobRecoveryResult.FailWithBackoff():
            return replace(_failed(worker, started=started), suspicion=suspicion)
    return _after_crash(facts, worker, rules, started=started, suspicion=suspicion)


def has_started(facts: CrashFacts, worker: DeadWorker) -> bool | None:
    """Whether the handler had started; None if that cannot be known.

    A worker marks a job before its start where the start matters: when the job has crashed before, and, if the worker
    claims ahead, when its task is not simply requeued or when the worker's last list says that it waits. Such a job
    without a mark never started.
    """
    if facts.is_marked:
        return True
    if facts.isolates and (facts.suspicion != "none" or facts.is_waiting):
        return False
    if not worker.prefetches:
        # A worker that says nothing of it, such as one in Rust, may claim ahead.
        return None if worker.prefetches is None else True
    policy = facts.on_crash or _known_policy(worker.on_crash) or "requeue"
    return False if policy != "requeue" else None


def _unstarted(worker: DeadWorker, rules: CrashRules, answer: JobRecoveryResult | None) -> Decision | None:
    if not rules.recover_claimed:
        return None
    match answer:
        case JobRecoveryResult.Skip():
            return None
        case JobRecoveryResult.Reschedule(run_at=run_at, attempts=attempts):
            return _rescheduled(run_at, attempts, started=False)
        case JobRecoveryResult.FailWithBackoff():
            return _failed(worker, started=False)
    return Decision(effect="return", word="given back", started=False)


def _rescheduled(run_at: datetime, attempts: int | None, *, started: bool | None) -> Decision:
    return Decision(
        effect="reschedule",
        word="reschedule",
        started=started,
        error=RECOVERED,
        run_at=run_at,
        attempts=attempts,
    )


def _failed(worker: DeadWorker, *, started: bool | None) -> Decision:
    return Decision(effect="retry", word="backoff", started=started, error=_crashed(worker))


def _after_crash(
    facts: CrashFacts, worker: DeadWorker, rules: CrashRules, *, started: bool | None, suspicion: Suspicion
) -> Decision:
    own_default = _known_policy(worker.on_crash) if facts.own_policies else None
    policy = facts.on_crash or own_default or rules.on_crash
    if policy == "fail":
        return Decision(effect="fail", word="fail", started=started, error=_crashed(worker), suspicion="none")
    limit = most_crashes(facts, rules)
    if limit is not None and facts.ran_alone and facts.crashes + 1 >= limit:
        error = _poisoned(facts, worker, rules)
        return Decision(effect="fail", word="poisoned", started=started, error=error, suspicion="none")
    if policy == "retry":
        return Decision(
            effect="retry",
            word="retry",
            started=started,
            delay=_delay(facts),
            error=_crashed(worker),
            suspicion=suspicion,
        )
    return Decision(
        effect="requeue",
        word="requeue",
        started=started,
        delay=rules.recovery_delay,
        error=RECOVERED,
        suspicion=suspicion,
    )


def most_crashes(facts: CrashFacts, rules: CrashRules) -> int | None:
    """With so many crashes the job fails for good; None: it never does. Its task says so, or its worker, or we do."""
    policy = facts.policy or {}
    if "max_crashes" in policy:
        return _known_limit(policy["max_crashes"], rules.max_crashes)
    if facts.own_max_crashes is not None:
        return _known_limit(json.loads(facts.own_max_crashes), rules.max_crashes)
    return rules.max_crashes


def _suspicion(facts: CrashFacts, rules: CrashRules, *, started: bool | None) -> Suspicion:
    """What the flags of a job say after a crash that may be its own.

    Every job that ran may be the one to blame, beside a suspect too: the suspect may be innocent, and the next death
    must find it in other company. Before its last chance a job runs alone, so that it can only fail for what it has
    done itself.
    """
    limit = most_crashes(facts, rules)
    if limit is None:
        return "none"  # it never fails for its crashes, so nobody need know which of them are its own
    if facts.crashes + 1 >= limit - 1:
        return "alone"
    return "suspect" if started or facts.suspicion == "suspect" else "crashed"


def _known_policy(word: object) -> str | None:
    """The word, if it is a policy. Rows of workers can be written by anybody."""
    return word if isinstance(word, str) and word in ON_CRASH else None


def _known_limit(given: object, otherwise: int | None) -> int | None:
    if given is None:
        return None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 1 else otherwise


def _delay(facts: CrashFacts) -> float | None:
    """Seconds after this many attempts, by the task's own policy; None leaves it to the database."""
    policy = facts.policy or {}
    base, step, most, jitter = (
        _known_number(policy.get(f"retry_{name}"))
        for name in ("base_seconds", "step_seconds", "most_seconds", "jitter")
    )
    if base is None:
        return None
    seconds = base + (step or 0) * facts.attempts
    if most is not None:
        seconds = min(seconds, most)
    return seconds * random.uniform(1 - (jitter or 0), 1 + (jitter or 0))  # noqa: S311 - no secret depends on it


def _known_number(given: object) -> float | None:
    return float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else None


def _crashed(worker: DeadWorker) -> str:
    return f"WorkerCrashed: {_ended(worker)} while it held this job"


def _poisoned(facts: CrashFacts, worker: DeadWorker, rules: CrashRules) -> str:
    places = facts.places or ()
    hours = rules.crash_window / 3600
    past = "".join(f"{place}, " for place in places)
    return (
        f"WorkerCrashed: the process of this job died {len(places) + 1} times within {hours:g} h "
        f"({past}{worker.id} just now, while it ran alone), so the job failed for good. "
        f"Fix the cause, then run it again with `ferryman jobs retry {facts.job_id}`."
    )


def _ended(worker: DeadWorker) -> str:
    match worker.reason:
        case "session lost":
            return f"worker {worker.id} lost its database session and sent no heartbeat"
        case "silent":
            return f"worker {worker.id} sent no heartbeat"
        case "unregistered":
            return f"worker {worker.id} was gone"
        case _:
            return f"worker {worker.id} was declared dead"
