"""What the tables must hold: a model of jobs, queues and workers that knows the rules and no SQL.

Where the statements conclude something from what a row looks like, the model remembers what really happened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferryman.jobs import JobKeyMode
from ferryman.worker.settling.outcomes import Completed, Failed, Interrupted, Snoozed, Unstarted
from tests.model.model_database import SECOND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ferryman.worker.settling.outcomes import Outcome

OLD_LOCK = 4 * 3600 * SECOND
SUPERSEDED = "Superseded: its key was used again or removed while it was claimed"
"""Graphile takes a lock that is older than this for forgotten."""
MORE = "…"
"""The end of an error of which the model knows only the beginning."""


@dataclass(kw_only=True)
class Job:
    """A row of the table of jobs, and what only the model knows of it."""

    id: int
    task: str
    queue: str | None
    payload: str
    priority: int
    run_at: int
    max_attempts: int
    key: str | None
    is_resilient: bool
    updated_at: int
    attempts: int = 0
    last_error: str | None = None
    locked_at: int | None = None
    locked_by: str | None = None
    revision: int = 0
    crashed_at: int | None = None
    """When the first crash was noticed that counts."""
    suspicion: str = "none"

    @property
    def is_available(self) -> bool:
        return self.locked_at is None and self.attempts < self.max_attempts

    @property
    def row(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "id"}

    @property
    def order(self) -> tuple[int, int, int]:
        return self.priority, self.run_at, self.id


@dataclass(frozen=True)
class Registered:
    """A row of the table of workers."""

    beat: int
    prefetches: bool | None
    beat_interval: float
    session_key: int | None
    on_crash: str | None
    isolates: bool


@dataclass(frozen=True)
class Lost:
    """What is kept of a dead worker."""

    reason: str
    recovered_jobs: int
    beat: int | None
    noticed_at: int
    prefetches: bool | None
    on_crash: str | None
    isolates: bool


@dataclass
class Oracle:
    """The tables, and the moment.

    at, begun_at: what time it is, and when the transaction of whoever acts has begun
    superseded: the jobs whose key was taken over, or that were removed, while they ran
    ended: how each job that is gone has left
    loose_queues: queues whose job was deleted under its owner
    """

    at: int
    begun_at: int
    up_since: int
    jobs: dict[int, Job] = field(default_factory=dict)
    queues: dict[str, tuple[str, int]] = field(default_factory=dict)
    workers: dict[str, Registered] = field(default_factory=dict)
    marks: dict[int, tuple[str, int]] = field(default_factory=dict)
    crashes: list[tuple[Any, ...]] = field(default_factory=list)
    lost: dict[str, Lost] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)
    superseded: set[int] = field(default_factory=set)
    ended: dict[int, str] = field(default_factory=dict)
    loose_queues: set[str] = field(default_factory=set)

    def snapshot(self) -> list[Any]:
        """Everything that the tables show."""
        return [
            {job_id: job.row for job_id, job in self.jobs.items()},
            {name: [*lock] for name, lock in self.queues.items()},
            {worker_id: worker.beat for worker_id, worker in self.workers.items()},
            {job_id: [*mark] for job_id, mark in self.marks.items()},
            [[*crash] for crash in self.crashes],
            {
                worker_id: [one.reason, one.recovered_jobs, one.beat, one.noticed_at]
                for worker_id, one in self.lost.items()
            },
        ]

    # Adding and removing

    def add(self, new: Job, mode: JobKeyMode = JobKeyMode.REPLACE) -> Job:
        """Store a job. Its id, which PostgreSQL chooses, is only used for a new row. What is stored comes back."""
        old = self.with_key(new.key)
        if old is None:
            return self._stored(new)
        if mode is JobKeyMode.UNSAFE_DEDUPE:
            old.revision, old.updated_at = old.revision + 1, self.begun_at
            return old
        if not old.is_available:
            self._retire(old)
            return self._stored(new)
        keeps_time = mode is JobKeyMode.PRESERVE_RUN_AT and old.attempts == 0
        self.jobs[old.id] = replace(
            new,
            id=old.id,
            payload=f"{old.payload[:-1]},{new.payload[1:]}",
            run_at=old.run_at if keeps_time else new.run_at,
            revision=old.revision + 1,
        )
        return self.jobs[old.id]

    def with_key(self, key: str | None) -> Job | None:
        """The job that has this key."""
        return next((job for job in self.jobs.values() if key is not None and job.key == key), None)

    def remove(self, key: str) -> int | None:
        """Keep the job with this key from starting again."""
        job = self.with_key(key)
        if job is None:
            return None
        if job.locked_at is not None and job.locked_at >= self.begun_at - OLD_LOCK:
            self._retire(job)
            return job.id
        if job.queue in self.queues and self.queues[job.queue] == (job.locked_by, job.locked_at):
            del self.queues[job.queue]
        self._end(job, "removed")
        return job.id

    def delete_row(self, job_id: int) -> None:
        """Somebody deletes the row by hand, whoever holds it."""
        job = self.jobs[job_id]
        if job.locked_at is not None and job.queue is not None:
            self.loose_queues.add(job.queue)
        self._end(job, "deleted by hand")

    def reschedule(self, job_id: int) -> bool:
        """Let a job run again, unless somebody runs it."""
        job = self.jobs[job_id]
        if job.locked_at is not None and job.locked_at >= self.begun_at - OLD_LOCK:
            return False
        job.attempts, job.run_at, job.updated_at = 0, self.at, self.begun_at
        self.superseded.discard(job_id)
        return True

    # Claiming and settling

    def claimable(self, tasks: Collection[str], *, avoids_resilient: bool) -> list[Job]:
        """What a claim may take, best first: one job of each queue that is free."""
        due = sorted(
            (
                job
                for job in self.jobs.values()
                if job.is_available
                and job.run_at <= self.begun_at
                and job.task in tasks
                and not (avoids_resilient and job.is_resilient)
            ),
            key=lambda job: job.order,
        )
        return [*self._first_of_free_queues(due)]

    def claim(self, jobs: Sequence[Job], worker_id: str) -> None:
        """These were claimed."""
        for job in jobs:
            job.attempts += 1
            job.locked_by, job.locked_at = worker_id, self.begun_at
            if job.queue is not None:
                self.queues[job.queue] = (worker_id, self.begun_at)

    def owns(self, worker_id: str, job_id: int, token: int) -> bool:
        """Whether a settlement of this claim must be accepted."""
        job = self.jobs.get(job_id)
        return job is not None and (job.locked_by, job.locked_at) == (worker_id, token)

    def mark(self, worker_id: str, job_id: int, token: int) -> bool:
        """Whether the job may start."""
        if self.owns(worker_id, job_id, token):
            self.marks[job_id] = (worker_id, token)
            return True
        return False

    def settle(self, worker_id: str, job_id: int, token: int, queue: str | None, outcome: Outcome) -> bool:
        """Whether the outcome is accepted. The queue is freed under the same fence, but also when the job is gone."""
        if queue is not None and self.queues.get(queue) == (worker_id, token):
            self._free(queue)
        if not self.owns(worker_id, job_id, token):
            return False
        job = self.jobs[job_id]
        job.locked_by = job.locked_at = None
        if isinstance(outcome, Completed):
            self._end(job, "completed")
        else:
            self._release(job, outcome)
        return True

    def return_unheard(self, worker_id: str, newest_token: int) -> list[int]:
        """Give back what was claimed after this token."""
        unheard = [
            job
            for job in self.jobs.values()
            if job.locked_by == worker_id and job.locked_at is not None and job.locked_at > newest_token
        ]
        for job in unheard:
            self._restore_attempt(job)
            job.locked_by, job.locked_at, job.updated_at = None, None, self.begun_at
        for queue, (holder, token) in [*self.queues.items()]:
            if holder == worker_id and token > newest_token:
                self._free(queue)
        return [job.id for job in unheard]

    # What must always hold

    def check(self) -> None:
        """Raise if the tables are in a state that they must never be in."""
        for job in self.jobs.values():
            assert 0 <= job.attempts <= job.max_attempts, job
            assert (job.locked_by is None) == (job.locked_at is None), job
            assert job.id not in self.ended, job
            if job.locked_by is not None and job.queue is not None:
                assert self.queues.get(job.queue) == (job.locked_by, job.locked_at), job
        locks = {(job.queue, job.locked_by, job.locked_at) for job in self.jobs.values()}
        for queue, lock in self.queues.items():
            assert queue in self.loose_queues or (queue, *lock) in locks, f"{queue} is held by nobody's job"

    def _first_of_free_queues(self, due: Sequence[Job]) -> Iterator[Job]:
        seen = {*self.queues}
        for job in due:
            if job.queue is None:
                yield job
            elif job.queue not in seen:
                seen.add(job.queue)
                yield job

    def _stored(self, new: Job) -> Job:
        self.jobs[new.id] = new
        return new

    def _retire(self, job: Job) -> None:
        job.key, job.attempts, job.updated_at = None, job.max_attempts, self.at
        if job.locked_at is not None:
            self.superseded.add(job.id)

    def _release(self, job: Job, outcome: Outcome) -> None:
        if isinstance(outcome, Failed | Snoozed):
            job.crashed_at, job.suspicion = None, "none"
        match outcome:
            case Failed(error=error, delay=delay, is_final=is_final):
                job.last_error = error
                if is_final or job.attempts >= job.max_attempts:
                    job.updated_at = self.begun_at
                if is_final:
                    job.attempts = job.max_attempts
                else:
                    seconds = math.exp(min(job.attempts, 10)) if delay is None else delay
                    job.run_at = max(self.begun_at, job.run_at) + round(seconds * SECOND)
                return
            case Snoozed(delay=delay) | Interrupted(delay=delay):
                job.run_at = max(job.run_at, self.begun_at + round(delay * SECOND))
            case Unstarted():
                pass  # it keeps its place among the others
        if isinstance(outcome, Interrupted):
            job.last_error = outcome.error
        self._restore_attempt(job)
        job.updated_at = self.begun_at

    def _restore_attempt(self, job: Job) -> None:
        if job.id in self.superseded:
            job.last_error = job.last_error or SUPERSEDED
        else:
            job.attempts = max(0, job.attempts - 1)

    def _free(self, queue: str) -> None:
        del self.queues[queue]
        self.loose_queues.discard(queue)

    def _end(self, job: Job, how: str) -> None:
        self.ended[job.id] = how
        del self.jobs[job.id]
