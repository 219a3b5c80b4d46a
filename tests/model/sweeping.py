"""What a sweep must do: who is dead, and what becomes of each of their jobs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferryman.recovery.crashes import RECOVERED
from tests.model.model_database import SECOND
from tests.model.oracle import MORE, SUPERSEDED, Lost

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tests.model.oracle import Job, Oracle


@dataclass(frozen=True)
class Policy:
    """What a crash means for the jobs of a task; `delay` as seconds per attempt, None for Graphile's."""

    on_crash: str | None = None
    delay_per_attempt: float | None = None


@dataclass(frozen=True)
class Rules:
    """The settings of the sweeper, in seconds."""

    threshold: float
    claimed_threshold: float
    multiplier: float
    recovery_delay: float
    max_crashes: int
    crash_window: float
    on_crash: str
    policies: Mapping[str, Policy]


@dataclass(frozen=True)
class Seen:
    """What an observer told of a worker."""

    beat: int
    silent_for: float
    has_lost_session: bool


@dataclass(frozen=True)
class Suspect:
    """A worker that loses all that it holds, or only what it never started.

    prefetches: None when nobody knows
    isolates: whether it marks the start of what has crashed
    """

    id: str
    reason: str
    is_dead: bool
    is_registered: bool
    prefetches: bool | None
    on_crash: str | None
    isolates: bool


@dataclass(frozen=True)
class Taken:
    """A job that a sweep took away."""

    job_id: int
    worker_id: str
    token: int
    started: bool | None
    decision: str


@dataclass
class ModelSweep:
    """One sweep.

    observed: what the sweeper has seen, by worker; None: the ages of beats decide
    named: workers that somebody declares dead; then no others are looked at
    """

    oracle: Oracle
    rules: Rules
    recovered_by: str
    observed: Mapping[str, Seen] | None = None
    named: Collection[str] | None = None
    finds_orphans: bool = True

    def suspects(self) -> list[Suspect]:
        """Who is looked at more closely."""
        found = [*self._silent()]
        if self.finds_orphans or self.named is not None:
            found += self._orphans()
        return [one for one in found if one.id != self.recovered_by]

    def run(self) -> tuple[list[Taken], list[str]]:
        """Do it: what was taken away, and who was dead."""
        suspects = {one.id: one for one in self.suspects()}
        taken = self.take(sorted(job.id for job in self.oracle.jobs.values() if job.locked_by in suspects), suspects)
        return taken, self.forget([*suspects.values()], taken)

    def take(self, job_ids: Sequence[int], suspects: Mapping[str, Suspect]) -> list[Taken]:
        """Take away what these jobs' owners must lose."""
        taken = []
        for job_id in job_ids:
            job = self.oracle.jobs[job_id]
            assert job.locked_by is not None
            one = self._take(job, suspects[job.locked_by])
            if one is not None:
                taken.append(one)
        return taken

    def forget(self, suspects: Sequence[Suspect], taken: Sequence[Taken]) -> list[str]:
        """The dead hold nothing any more, and are remembered."""
        dead = {one.id: one for one in suspects if one.is_dead}
        for queue, (holder, _) in [*self.oracle.queues.items()]:
            if holder in dead:
                self.oracle._free(queue)
        counts = Counter(one.worker_id for one in taken)
        for one in dead.values():
            self._remember(one, counts[one.id])
        return [*dead]

    def _silent(self) -> Iterator[Suspect]:
        for worker_id, worker in sorted(self.oracle.workers.items()):
            if self.named is not None and worker_id not in self.named:
                continue
            seen = (self.observed or {}).get(worker_id)
            if self.observed is None:
                silence = (self.oracle.at - max(worker.beat, self.oracle.up_since)) / SECOND
            else:
                silence = seen.silent_for if seen is not None and seen.beat == worker.beat else 0.0
            is_lost = seen is not None and seen.has_lost_session and seen.beat == worker.beat
            patience = 2 * worker.beat_interval
            threshold = max(self.rules.threshold, patience)
            if self._holds_resilient(worker_id):
                is_dead = silence > threshold * self.rules.multiplier
            else:
                is_dead = is_lost or silence > threshold
            is_named = self.named is not None
            has_idled = worker.prefetches and (is_lost or silence > max(self.rules.claimed_threshold, patience))
            if is_named or is_dead or has_idled:
                reason = "by hand" if is_named else "session lost" if is_lost else "silent"
                yield Suspect(
                    worker_id,
                    reason,
                    is_named or is_dead,
                    True,
                    worker.prefetches,
                    worker.on_crash,
                    worker.isolates,
                )

    def _orphans(self) -> Iterator[Suspect]:
        locks = [(job.locked_by, job.locked_at) for job in self.oracle.jobs.values()]
        locks += [*self.oracle.queues.values()]
        newest: dict[str, int] = {}
        for holder, token in locks:
            if holder is not None and token is not None:
                newest[holder] = max(token, newest.get(holder, token))
        for holder, token in sorted(newest.items()):
            lost = self.oracle.lost.get(holder)
            if self.named is not None:
                is_found = holder in self.named
            else:
                silence = (self.oracle.at - max(token, self.oracle.up_since)) / SECOND
                patience = self.rules.multiplier if self._holds_resilient(holder) else 1
                is_known = holder.startswith("ferryman-") or (lost is not None and lost.beat is not None)
                is_found = is_known and silence > self.rules.threshold * patience
            if is_found and holder not in self.oracle.workers:
                reason = "unregistered" if self.named is None else "by hand"
                facts = (None, None, False) if lost is None else (lost.prefetches, lost.on_crash, lost.isolates)
                yield Suspect(holder, reason, True, False, *facts)

    def _holds_resilient(self, worker_id: str) -> bool:
        return any(job.is_resilient and job.locked_by == worker_id for job in self.oracle.jobs.values())

    def _take(self, job: Job, owner: Suspect) -> Taken | None:
        started = self._started(job, owner)
        if started is not False and not owner.is_dead:
            return None
        assert job.locked_at is not None
        decision = "superseded" if job.id in self.oracle.superseded else self._decision(job, owner, started)
        taken = Taken(job.id, owner.id, job.locked_at, started, decision)
        crash = (
            job.id, job.task, owner.id, self.recovered_by, self.oracle.at, job.attempts, started, decision,
            owner.reason,
        )  # fmt: skip
        self._carry_out(job, owner, decision)
        self._suspect(job, started, decision)
        self.oracle.crashes.append(crash)
        return taken

    def _started(self, job: Job, owner: Suspect) -> bool | None:
        if self.oracle.marks.get(job.id) == (job.locked_by, job.locked_at):
            return True
        if owner.isolates and job.suspicion != "none":
            return False
        if owner.prefetches is None:
            return None
        if not owner.prefetches:
            return True
        policy = self.rules.policies[job.task].on_crash or owner.on_crash or "requeue"
        return False if policy != "requeue" else None

    def _decision(self, job: Job, owner: Suspect, started: bool | None) -> str:
        if started is False:
            return "given back"
        own = owner.on_crash if owner.isolates else None
        policy = self.rules.policies[job.task].on_crash or own or self.rules.on_crash
        if policy == "fail":
            return "fail"
        ran_alone = owner.isolates and started is True and job.suspicion == "alone"
        return "poisoned" if ran_alone and self._crashes_that_count(job) + 1 >= self.rules.max_crashes else policy

    def _crashes_that_count(self, job: Job) -> int:
        """Since its last ordinary end, and within the window."""
        if job.crashed_at is None:
            return 0
        oldest = self.oracle.at - round(self.rules.crash_window * SECOND)
        return sum(
            crashed == job.id and noticed_at >= job.crashed_at and noticed_at > oldest and started is not False
            for crashed, *_, noticed_at, _, started, decision, _ in self.oracle.crashes
            if decision != "superseded"
        )

    def _suspect(self, job: Job, started: bool | None, decision: str) -> None:
        """What is believed of the job from now on."""
        if decision in {"given back", "superseded"}:
            return
        if decision in {"fail", "poisoned"} or (decision == "retry" and job.attempts >= job.max_attempts):
            job.crashed_at, job.suspicion = None, "none"
            return
        if self._crashes_that_count(job) + 1 >= self.rules.max_crashes - 1 or job.suspicion == "alone":
            job.suspicion = "alone"
        elif job.suspicion != "suspect":
            job.suspicion = "suspect" if started else "crashed"
        if job.crashed_at is None:
            job.crashed_at = self.oracle.at

    def _carry_out(self, job: Job, owner: Suspect, decision: str) -> None:
        now, policy = self.oracle.at, self.rules.policies[job.task]
        if job.queue is not None and self.oracle.queues.get(job.queue, ("",))[0] == owner.id:
            self.oracle._free(job.queue)
        self.oracle.marks.pop(job.id, None)
        if decision in {"fail", "poisoned"}:
            job.attempts = job.max_attempts
        elif decision == "retry":
            per_attempt = policy.delay_per_attempt
            seconds = math.exp(min(job.attempts, 10)) if per_attempt is None else per_attempt * job.attempts
            job.run_at = max(job.run_at, now) + round(seconds * SECOND)
        elif decision in {"requeue", "given back"}:
            job.attempts = max(0, job.attempts - 1)
        if decision == "requeue":
            job.run_at = max(job.run_at, now + round(self.rules.recovery_delay * SECOND))
            job.last_error = RECOVERED
        elif decision in {"fail", "poisoned", "retry"}:
            job.last_error = self._error(job, owner, decision)
        elif decision == "superseded" and job.last_error is None:
            job.last_error = SUPERSEDED
        job.updated_at, job.locked_by, job.locked_at = now, None, None

    def _error(self, job: Job, owner: Suspect, decision: str) -> str:
        """How the error must begin; it goes on with words that are nobody's business here."""
        if decision == "poisoned":
            count, hours = self._crashes_that_count(job) + 1, self.rules.crash_window / 3600
            return f"WorkerCrashed: the process of this job died {count} times within {hours:g} h{MORE}"
        return f"WorkerCrashed: worker {owner.id} {MORE}"

    def _remember(self, one: Suspect, count: int) -> None:
        worker, before = self.oracle.workers.pop(one.id, None), self.oracle.lost.get(one.id)
        self.oracle.lost[one.id] = Lost(
            reason=one.reason,
            recovered_jobs=count + (before.recovered_jobs if before else 0),
            beat=worker.beat if worker else before.beat if before else None,
            noticed_at=self.oracle.at,
            prefetches=worker.prefetches if worker else before.prefetches if before else None,
            on_crash=worker.on_crash if worker else before.on_crash if before else None,
            isolates=worker.isolates if worker else before.isolates if before else False,
        )
