"""Decides what happens to a job whose worker died: pure functions, from facts to a decision."""

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
"""The suspicion that a job's flags store. Each word includes those before it."""


class DeadWorker(msgspec.Struct, frozen=True):
    """A worker whose jobs are to be recovered: all of them, or only those that it never started.

    beat: its newest heartbeat, in microseconds; None if it is not registered
    loses_all_jobs: True if it is dead; False if it was only silent for long enough to lose jobs that it never started
    prefetches: True if it claims ahead; None if that is unknown
    on_crash: its default policy, for tasks that set none
    """

    id: str
    reason: str
    beat: int | None
    loses_all_jobs: bool
    prefetches: bool | None
    on_crash: str | None


class CrashFacts(msgspec.Struct, frozen=True):
    """The facts about a job that a dead worker holds. Rows come from `read_crash_facts.sql`.

    suspicion: the suspicion that the job's flags store
    is_marked: True if the worker has marked the start of this claim
    is_waiting: True if the worker's last list of unstarted claims has this one
    isolates: True if the worker marks what has crashed, and runs suspects as their flags say
    own_policies: True if the worker's row names the policies of its tasks
    policy: the policy of the task, from the worker's row, or from the table if there is none
    own_max_crashes: the worker's limit, as JSON: a number, null (no limit), or None if its row names none
    crashes: how many crashes count so far, since the last ordinary end of an attempt
    places: the worker and time of each of those crashes
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
        """Read the facts from a row."""
        return cls(*row)

    @property
    def on_crash(self) -> str | None:
        """The task's policy; None if it sets none."""
        return _known_policy((self.policy or {}).get("on_crash"))

    @property
    def ran_alone(self) -> bool:
        """True if only this job was running when the worker died."""
        return self.isolates and self.is_marked and self.suspicion == "alone"


class CrashRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings about crashes; see `RecoverySettings`. Times are in seconds."""

    recovery_delay: float
    on_crash: str
    max_crashes: int | None
    crash_window: float
    recover_claimed: bool = True
    recover_running: bool = True


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a job. `delay` is in seconds; None: no delay for "requeue", Graphile's for "retry"."""

    effect: Effect
    word: str
    started: bool | None
    delay: float | None = None
    error: str | None = None
    run_at: datetime | None = None
    attempts: int | None = None
    suspicion: Suspicion | None = None
    """The suspicion that its flags store from now on; None leaves them as they are."""

    def document(self, facts: CrashFacts, reason: str) -> Mapping[str, Any]:
        """The decision as `recover_jobs.sql` takes it."""
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
    """Decide what happens to the job; None leaves it locked. `answer` is a hook's answer about it."""
    started = has_started(facts, worker)
    if started is False:
        return _unstarted(worker, rules, answer)
    if not worker.loses_all_jobs or not rules.recover_running:
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
    """True if the handler had started, False if not, None if that cannot be known.

    A worker marks the start of a job where it matters: if the job has crashed before, and, if the worker claims ahead,
    if its task's policy is not "requeue" or the worker's last list names the job as waiting. Such a job without a mark
    never started.
    """
    if facts.is_marked:
        return True
    if facts.isolates and (facts.suspicion != "none" or facts.is_waiting):
        return False
    if not worker.prefetches:
        # A worker whose row does not say so, such as one in Rust, may claim ahead.
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
    """The number of crashes that fails the job for good, from its task, its worker or the settings; None: never."""
    policy = facts.policy or {}
    if "max_crashes" in policy:
        return _known_limit(policy["max_crashes"], rules.max_crashes)
    if facts.own_max_crashes is not None:
        return _known_limit(json.loads(facts.own_max_crashes), rules.max_crashes)
    return rules.max_crashes


def _suspicion(facts: CrashFacts, rules: CrashRules, *, started: bool | None) -> Suspicion:
    """The suspicion of a job after a crash that it may have caused.

    Every job that ran may have caused it, even beside a suspect: the suspect may be innocent, and at the next crash
    other jobs must run beside it. Before the crash that would fail it, a job runs alone, so that it only fails for a
    crash that it has caused itself.
    """
    limit = most_crashes(facts, rules)
    if limit is None:
        return "none"  # it never fails for crashes, so it does not matter which it has caused
    if facts.crashes + 1 >= limit - 1:
        return "alone"
    return "suspect" if started or facts.suspicion == "suspect" else "crashed"


def _known_policy(word: object) -> str | None:
    """The word, if it is a policy. Other programs can write the rows of workers, too."""
    return word if isinstance(word, str) and word in ON_CRASH else None


def _known_limit(given: object, otherwise: int | None) -> int | None:
    if given is None:
        return None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 1 else otherwise


def _delay(facts: CrashFacts) -> float | None:
    """The task's retry delay after this many attempts, in seconds; None: Graphile's delay."""
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
            return f"worker {worker.id} was not registered any more"
        case _:
            return f"worker {worker.id} was declared dead"
